"""Random nodes with NUMA zones and pods that need them, within what the real scheduler-plugins survives.

It ends in a panic over zones whose numbers are not 0 to n-1 and over a container without requests in a Guaranteed pod,
and fails the pod over one with a single request where allocation is balanced, or where there are more zones than
`topologyManagerMaxNUMANodes` says; none of these occurs here.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.conformance.case import Case, Json
from tests.conformance.surroundings import OVERHEADS

NIC, GPU, HUGE = "example.com/nic", "example.com/gpu", "hugepages-2Mi"
PLUGIN = "NodeResourceTopologyMatch"
PROFILES: dict[str, Json] = {
    "default": {},
    "least": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 3}, {"name": NIC, "weight": 7}]},
    "most": {"type": "MostAllocated", "resources": [{"name": "memory", "weight": 2}, {"name": "cpu", "weight": 0}]},
    "balanced": {"type": "BalancedAllocation", "resources": []},
    "zones": {"type": "LeastNUMANodes", "resources": []},
}
"""Scoring strategies by profile."""
_POLICIES = ("single-numa-node", "restricted", "best-effort", "none")
_DEPRECATED = (
    *("SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel", "BestEffortPodLevel", "BestEffortContainerLevel"),
    *("RestrictedPodLevel", "RestrictedContainerLevel", "Restricted", "None", "SingleNUMANode", ""),
)


def generate(seed: int, profile: str = "") -> Case:
    """A cluster of a few nodes, most with zones, some pods there, and pods to place."""
    rng = random.Random(seed)
    profile = profile or rng.choice(list(PROFILES))
    names = [f"z-{number}" for number in range(rng.randint(2, 7))]
    layouts = [_layout(rng) for _ in range(rng.choice((1, 2, 3)))]
    objects: list[Json] = []
    for name in names:
        objects.append(_node(rng, name))
        if rng.random() < 0.93:
            objects.append(_topology(rng, name, rng.choice(layouts)))
    objects += [
        _pod(rng, f"there-{number}") | {"spec": _pod(rng, "x")["spec"] | {"nodeName": rng.choice(names)}}
        for number in range(rng.choice((0, 0, 2)))
    ]
    pods = tuple(_pod(rng, f"new-{number}") for number in range(3))
    return Case(seed, ("numa",), f"numa-{profile}", tuple(objects), pods)


NODE_NAMES = tuple(f"r-{number:02d}" for number in range(24))


def published(seed: int) -> list[Json]:
    """Topologies of all nodes that `reserving` draws from: upstream reads them when it starts, and never again."""
    rng = random.Random(seed)
    layouts = [_layout(rng) for _ in range(8)]
    return [_topology(rng, name, rng.choice(layouts)) for name in NODE_NAMES]


def reserving(seed: int) -> Case:
    """Some of the nodes, and pods that come one after the other; each that is placed is missing from its node's zones
    for all that follow, in later cases too, as nobody publishes anything new."""
    rng = random.Random(seed)
    names = rng.sample(NODE_NAMES, rng.randint(3, 8))
    pods = tuple(_pod(rng, f"p-{seed}-{number}") for number in range(5))
    nodes = tuple(_node(rng, name) for name in names)
    return Case(seed, ("numa-reserving",), f"numa-{rng.choice(list(PROFILES))}", nodes, pods)


def _node(rng: random.Random, name: str) -> Json:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    for resource in (NIC, GPU):
        if rng.random() < 0.9:
            amounts[resource] = "16"
    if rng.random() < 0.9:
        amounts[HUGE] = "32Gi"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _layout(rng: random.Random) -> Json:
    """What nodes of one make have in common: zones, what each lists, distances, settings."""
    count = rng.choice((1, 2, 2, 4, 4, 8))
    order = list(range(count))
    if rng.random() < 0.2:
        rng.shuffle(order)
    nowhere = {name for name in (NIC, GPU, HUGE) if rng.random() < 0.25}
    listed = {
        zone: [name for name in ("cpu", "memory", NIC, GPU, HUGE) if name not in nowhere and rng.random() < 0.88]
        for zone in order
    }
    distances: tuple[Callable[[], int], ...] = (
        lambda: 12,
        lambda: rng.choice((12, 20, 32)),
        lambda: rng.choice((10, 255, 300, 1000)),
    )
    far = rng.choice(distances)
    costs = {zone: {other: 10 if zone == other else far() for other in order} for zone in order}
    if rng.random() < 0.25:
        costs = {
            zone: {other: cost for other, cost in row.items() if rng.random() < 0.5} for zone, row in costs.items()
        }
    return {"order": order, "listed": listed, "costs": costs, "settings": _settings(rng, count)}


def _settings(rng: random.Random, zones: int) -> Json:
    attributes: list[Json] = []

    def add(name: str, value: str) -> None:
        attributes.append({"name": name, "value": value})

    if rng.random() < 0.85:
        add("topologyManagerPolicy", rng.choice((*(_POLICIES[:1] * 6), *_POLICIES)))
    if rng.random() < 0.7:
        add("topologyManagerScope", rng.choice(("pod", "container")))
    if rng.random() < 0.4:
        enough = [text for text in ("2", "3", "4", "8", "+16", "64", "2000", "99999") if int(text) >= zones]
        add("topologyManagerMaxNUMANodes", rng.choice(enough))
    if rng.random() < 0.15:
        add("topologyManagerPolicy", rng.choice(("Single-NUMA-Node", "", "whatever")))
    if rng.random() < 0.15:
        add("topologyManagerMaxNUMANodes", rng.choice(("1", "0", "-4", "eight", "1_0", "")))
    if rng.random() < 0.1:
        add("topologyManagerScope", "Pod")
    add("vendor", "anything")
    settings: Json = {"attributes": attributes}
    if rng.random() < 0.3:
        settings["topologyPolicies"] = [rng.choice(_DEPRECATED), *rng.choice(((), ("SingleNUMANodePodLevel",)))]
    return settings


def _topology(rng: random.Random, name: str, layout: Json) -> Json:
    zones = [_zone(rng, number, layout) for number in layout["order"]]
    if rng.random() < 0.3:
        # No NUMA node: not looked at, whatever it says.
        zones.insert(rng.randint(0, len(zones)), _zone(rng, 0, layout) | {"name": "socket-0", "type": "Socket"})
    if rng.random() < 0.1:
        zones.insert(rng.randint(0, len(zones)), _zone(rng, 0, layout) | {"name": rng.choice(("numa-0", "node-x"))})
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": zones,
        **layout["settings"],
    }


def _zone(rng: random.Random, number: int, layout: Json) -> Json:
    amounts = {
        "cpu": ("0", "1", "2", "2500m", "4", "7900m", "8", "16"),
        "memory": ("0", "256Mi", "1Gi", "2G", "4Gi", "3333333333", "16Gi"),
        NIC: ("0", "1", "2", "4"),
        GPU: ("0", "1", "2"),
        HUGE: ("0", "64Mi", "256Mi", "1Gi"),
    }
    return {
        "name": f"node-{number}",
        "type": "Node",
        "costs": [{"name": f"node-{other}", "value": cost} for other, cost in layout["costs"][number].items()],
        "resources": [
            {"name": resource, "capacity": "64Gi", "allocatable": "64Gi", "available": rng.choice(amounts[resource])}
            for resource in layout["listed"][number]
        ],
    }


def _pod(rng: random.Random, name: str) -> Json:
    quality = rng.choice(("guaranteed",) * 6 + ("burstable", "burstable", "best-effort"))
    count = rng.choice((1, 1, 1, 2, 3))
    body: Json = {"containers": [_container(rng, f"c{index}", quality) for index in range(count)]}
    if rng.random() < 0.3:
        body["initContainers"] = [
            _container(rng, f"i{index}", quality) | ({"restartPolicy": "Always"} if rng.random() < 0.4 else {})
            for index in range(rng.choice((1, 2)))
        ]
    if rng.random() < 0.15:
        body["runtimeClassName"] = rng.choice(list(OVERHEADS))
    if quality == "guaranteed" and rng.random() < 0.08:
        # As a whole it is Guaranteed, whatever its containers say.
        whole = {"cpu": "32", "memory": "64Gi"}
        body["resources"] = {"requests": whole, "limits": whole}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": body}


def _container(rng: random.Random, name: str, quality: str) -> Json:
    requests: Json = {}
    limits: Json = {}
    if quality == "guaranteed":
        requests = {
            "cpu": rng.choice(("1", "2", "2", "1500m", "3", "4", "100m")),
            "memory": rng.choice(("64Mi", "256Mi", "1Gi", "1Gi", "1500M", "3Gi")),
        }
        limits = dict(requests)
    elif quality == "burstable":
        requests = {"cpu": rng.choice(("1", "4", "500m", "0"))}
        if rng.random() < 0.6:
            requests["memory"] = rng.choice(("64Mi", "2Gi"))
    devices = {NIC: ("1", "1", "2", "0"), GPU: ("1", "2")}
    for resource, choices in devices.items():
        if rng.random() < 0.22:
            requests[resource] = limits[resource] = rng.choice(choices)
    if quality != "best-effort" and rng.random() < 0.15:
        requests[HUGE] = limits[HUGE] = rng.choice(("64Mi", "128Mi", "512Mi"))
    if quality != "best-effort" and rng.random() < 0.12:
        requests["ephemeral-storage"] = limits["ephemeral-storage"] = "1Gi"
    return {"name": name, "image": "registry.k8s.io/pause", "resources": {"requests": requests, "limits": limits}}
