"""Verdicts and scores over many nodes at once are those of the rules for one node at a time, on random cases."""

import random
from typing import Any

import msgspec
import pytest

from scheduler.framework import PodInfo
from tests.unit.scheduler.core.builders import pod
from tests.unit.scheduler.plugins import numa_reference as reference
from tests.unit.scheduler.plugins.numa import asking, numa_runner, scores, state_of, topology, verdicts, zone

STRATEGIES = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")
NIC, HUGE = "example.com/nic", "hugepages-2Mi"
MIB = 1 << 20


def numbers(available: dict[str, str]) -> dict[str, int]:
    """The amounts of a zone or container in the units pods are counted in."""
    amounts = {}
    for key, text in available.items():
        name = {"nic": NIC, "hugepages": HUGE, "storage": "ephemeral-storage"}.get(key, key)
        number = int(text.removesuffix("m").removesuffix("Mi"))
        amounts[name] = number * 1000 if key == "cpu" and not text.endswith("m") else number
        if text.endswith("Mi"):
            amounts[name] *= MIB
    return amounts


def world(rng: random.Random) -> list[tuple[Any, str, str, list[reference.Zone], int]]:
    """Nodes as (object, policy, scope, zones, most zones); many share the shape of their zones."""
    shapes = []
    for _ in range(3):
        count = rng.choice((1, 2, 2, 4, 8))
        order = list(range(count))
        if rng.random() < 0.4:
            rng.shuffle(order)
        listing = [
            [key for key in ("cpu", "memory", "nic", "hugepages") if key in ("cpu", "memory") or rng.random() < 0.6]
            for _ in order
        ]
        costs = {
            origin: {other: 10 if origin == other else rng.choice((12, 20, 32)) for other in order} for origin in order
        }
        if rng.random() < 0.3:
            costs = {origin: {} for origin in order}
        policy = rng.choice(("single-numa-node", "single-numa-node", "single-numa-node", "restricted"))
        shapes.append((order, listing, costs, policy, rng.choice(("pod", "container")), rng.choice((8, 4, 16, 3))))
    described = []
    for index in range(12):
        order, listing, costs, policy, scope, most = rng.choice(shapes)
        zones, plain = [], []
        for number, keys in zip(order, listing, strict=True):
            amounts = {
                "cpu": rng.choice(("0", "1", "2", "3500m", "4", "8")),
                "memory": rng.choice(("0", "256Mi", "1024Mi", "4096Mi")),
                "nic": rng.choice(("0", "1", "2")),
                "hugepages": rng.choice(("0", "64Mi", "512Mi")),
            }
            available = {key: amounts[key] for key in keys}
            zones.append(zone(number, costs[number], **available))
            plain.append((number, numbers(available), costs[number]))
        name = f"n-{index}"
        attributes = {"topologyManagerMaxNUMANodes": str(most)}
        item = topology(name, *zones, policy=policy, scope=scope, attributes=attributes)
        described.append((item, policy, scope, plain, most))
    return described


def asked(rng: random.Random) -> tuple[PodInfo, list[reference.Container], bool]:
    """A pod, its containers, and whether it is Guaranteed."""
    is_guaranteed = rng.random() < 0.7
    plain: list[reference.Container] = []
    built: dict[str, list[dict[str, Any]]] = {"init": [], "app": []}
    for kind in [
        *rng.choice(((), ("init",), ("init", "sidecar"), ("sidecar", "init"))),
        *["app"] * rng.choice((1, 1, 2, 3)),
    ]:
        amounts = {"cpu": rng.choice(("1", "2", "1500m", "4")), "memory": rng.choice(("128Mi", "1024Mi", "2048Mi"))}
        if rng.random() < 0.3:
            amounts["nic"] = rng.choice(("0", "1", "2"))
        if rng.random() < 0.2:
            amounts["hugepages"] = "64Mi"
        if rng.random() < 0.1:
            amounts["ephemeral-storage"] = "10Mi"
        container = asking(f"{kind}-{len(plain)}", limits=is_guaranteed, **amounts)
        if kind == "sidecar":
            container["restartPolicy"] = "Always"
        built["app" if kind == "app" else "init"].append(container)
        plain.append((kind, numbers(amounts)))
    return pod("new", *built["app"], initContainers=built["init"]), plain, is_guaranteed


@pytest.mark.parametrize("seed", range(60))
def test_many_nodes_are_judged_as_each_by_itself(seed: int) -> None:
    rng = random.Random(seed)
    nodes = world(rng)
    absent = rng.random() < 0.2
    state = state_of(*(described[0] for described in nodes), allocatable={NIC: "0"} if absent else None)
    weights = {"cpu": rng.choice((0, 1, 3)), "memory": rng.choice((1, 2))}
    resources = [{"name": name, "weight": weight} for name, weight in weights.items()]
    # A weight of 0 in a configuration means 1.
    runners = {name: numa_runner(scoringStrategy={"type": name, "resources": resources}) for name in STRATEGIES}
    upstream = numa_runner("upstream")
    on_node = frozenset({"cpu", "memory", "ephemeral-storage", HUGE, NIC})
    for _ in range(6):
        new, containers, is_guaranteed = asked(rng)
        for runner in (runners["LeastAllocated"], upstream):
            expected = {
                item.metadata.name: reference.verdict(
                    scope, containers, zones, is_guaranteed, on_node, upstream=runner is upstream
                )
                if policy == "single-numa-node"
                else ""
                for item, policy, scope, zones, _ in nodes
            }
            assert verdicts(state, new, runner) == expected
        for name, runner in runners.items():
            wanted = {}
            for item, policy, scope, zones, most in nodes:
                counts = policy == "single-numa-node" or name == "LeastNUMANodes"
                value = (
                    reference.score(name, scope, containers, zones, weights=weights, most_zones=most) if counts else 0
                )
                wanted[item.metadata.name] = value if is_guaranteed else 100
            got = scores(state, new, runner)
            if name == "BalancedAllocation":
                # An exact variance and one in floating point may fall on two sides of a whole number.
                assert all(abs(got[node] - wanted[node]) <= 1 for node in wanted), (got, wanted)
            else:
                assert got == wanted, name


def test_the_zones_of_a_node_may_change_their_shape_while_others_stay() -> None:
    rng = random.Random(7)
    first = world(rng)
    state = state_of(*(described[0] for described in first))
    runner = numa_runner()
    new, containers, is_guaranteed = asked(random.Random(1))
    for step in range(40):
        current = {described[0].metadata.name: described for described in first}
        changed = rng.choice(world(rng))
        name = rng.choice(list(current))
        item = msgspec.structs.replace(changed[0], metadata=current[name][0].metadata)
        if step % 5 == 4:
            state.objects.remove("NodeResourceTopology", "", name)
            current[name] = (item, "none", changed[2], changed[3], 8)
        else:
            state.objects.upsert("NodeResourceTopology", item)
            current[name] = (item, changed[1], changed[2], changed[3], 8)
        first = list(current.values())
        on_node = frozenset({"cpu", "memory", "ephemeral-storage", HUGE, NIC})
        assert verdicts(state, new, runner) == {
            item.metadata.name: reference.verdict(scope, containers, zones, is_guaranteed, on_node)
            if policy == "single-numa-node"
            else ""
            for item, policy, scope, zones, _ in first
        }
