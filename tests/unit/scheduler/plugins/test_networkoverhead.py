"""NetworkOverhead: upstream's own cases, a plain reference on random clusters, and objects that are missing."""

import random
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.catalog import ActionType
from scheduler.core import decide, explain
from scheduler.framework import ClusterEvent, Hint, PodInfo, ProfileRunner, conclude
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod, runner
from tests.unit.scheduler.plugins.storage import made

NAME = "NetworkOverhead"
GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
PLUGINS = {
    "preFilter": {"enabled": [{"name": NAME}]},
    "filter": {"enabled": [{"name": NAME}]},
    "score": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]},
    "postFilter": {"disabled": [{"name": "*"}]},
}
Costs = Mapping[str, Mapping[str, int]]


def profile(compatibility: str = "safe", **args: Any) -> ProfileRunner:
    return runner(PLUGINS, {NAME: {"networkTopologyName": "nt", **args}}, compatibility=compatibility)


def app_group(workloads: Mapping[str, Mapping[str, int]], name: str = "basic", namespace: str = "default") -> Any:
    """Workloads by selector, with the limits of their dependencies."""
    listed = [
        {
            "workload": {"kind": "Deployment", "name": selector, "selector": selector},
            "dependencies": [
                {"workload": {"kind": "Deployment", "name": other, "selector": other}, "maxNetworkCost": most}
                for other, most in dependencies.items()
            ],
        }
        for selector, dependencies in workloads.items()
    ]
    return made("AppGroup", name, namespace, spec={"workloads": listed})


def topology(
    regions: Costs, zones: Costs, *, weights: str = "UserDefined", keys: tuple[str, str] = (REGION, ZONE)
) -> Any:
    lists = [
        {
            "topologyKey": key,
            "originList": [
                {
                    "origin": origin,
                    "costList": [{"destination": name, "networkCost": cost} for name, cost in costs.items()],
                }
                for origin, costs in table.items()
            ],
        }
        for key, table in zip(keys, (regions, zones), strict=True)
    ]
    return made("NetworkTopology", "nt", "default", spec={"weights": [{"name": weights, "topologyList": lists}]})


def member(workload: str, name: str = "new", group: str = "basic", **fields: Any) -> PodInfo:
    return pod(name, labels={GROUP: group, WORKLOAD: workload}, **fields)


REGIONS = {"us-west-1": {"us-east-1": 20}, "us-east-1": {"us-west-1": 20}}
ZONES = {"Z1": {"Z2": 5}, "Z2": {"Z1": 5}, "Z3": {"Z4": 10}, "Z4": {"Z3": 10}}
PLACES = [("us-west-1", "Z1")] * 2 + [("us-west-1", "Z2")] * 2 + [("us-east-1", "Z3")] * 2 + [("us-east-1", "Z4")] * 2
BASIC = {"p1": {"p2": 0}, "p2": {"p3": 0}, "p3": {}}
GENEROUS = {name: dict.fromkeys(needs, 10000) for name, needs in BASIC.items()}


def basic(
    workloads: Mapping[str, Mapping[str, int]] = BASIC, *, costs: bool = True, group: bool = True
) -> ClusterState:
    """The cluster of upstream's tests: eight nodes in four zones of two regions, and a pod of each workload."""
    state = cluster(
        *(
            node(f"n-{number}", labels={REGION: region, ZONE: zone})
            for number, (region, zone) in enumerate(PLACES, start=1)
        ),
        pods={"n-2": [member("p1", "a")], "n-5": [member("p2", "b")], "n-1": [member("p3", "c")]},
    )
    if group:
        state.objects.upsert("AppGroup", app_group(workloads))
    if costs:
        state.objects.upsert("NetworkTopology", topology(REGIONS, ZONES))
    return state


def asked(state: ClusterState, info: PodInfo, scheduler: ProfileRunner) -> dict[str, tuple[int, int] | str]:
    """(raw, normalised) score by node, or why the node is no good."""
    explanation = explain(state.snapshot(NOW), info, scheduler)
    return {
        name: (explained.scores[NAME].raw, explained.scores[NAME].normalized)
        if explained.rejection is None
        else ", ".join(explained.rejection.reasons)
        for name, explained in explanation.nodes()
    }


# TestNetworkOverheadScore (pkg/networkaware/networkoverhead/networkoverhead_test.go); there Filter is not asked.
@pytest.mark.parametrize(
    ("workload", "raw", "normalized"),
    [
        pytest.param("p1", [20, 20, 20, 20, 0, 1, 10, 10], [0, 0, 0, 0, 100, 95, 50, 50], id="p1"),
        pytest.param("p2", [0, 1, 5, 5, 20, 20, 20, 20], [100, 95, 75, 75, 0, 0, 0, 0], id="p2"),
        pytest.param("p3", [0] * 8, [0] * 8, id="p3 has no dependencies"),
    ],
)
@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_scores_are_upstreams(workload: str, raw: list[int], normalized: list[int], compatibility: str) -> None:
    answers = asked(basic(GENEROUS), member(workload), profile(compatibility))
    assert list(answers.values()) == list(zip(raw, normalized, strict=True))


def test_the_filter_counts_limits_kept_and_exceeded() -> None:
    workloads = {"p1": {"p2": 9, "p3": 19}, "p2": {}, "p3": {}}
    answers = asked(basic(workloads), member("p1"), profile("upstream"))
    says = "Node {} does not meet several network requirements from Workload dependencies: Satisfied: {} Violated: {}"
    assert [name for name, answer in answers.items() if not isinstance(answer, str)] == [
        "n-1",
        "n-2",
        "n-3",
        "n-4",
        "n-5",
        "n-6",
    ]
    assert answers["n-7"] == says.format("n-7", 0, 2)
    assert answers["n-8"] == says.format("n-8", 0, 2)


def test_the_reason_names_no_node_here_and_every_node_upstream() -> None:
    """A text per node makes the pod's message as long as the cluster is large."""
    state = basic({"p1": {"p2": 0}})
    for info in [placed for name in ("n-5", "n-6") for placed in state.pods_on(name)]:
        state.remove_pod(info.uid)
    for name in ("n-5", "n-6"):
        state.remove_node(name)
    state.upsert_pod(msgspec.structs.replace(member("p2", "b"), node_name="n-7"))
    messages = {
        mode: explain(state.snapshot(NOW), member("p1", nodeSelector={ZONE: "Z1"}), profile(mode)).message or ""
        for mode in ("safe", "upstream")
    }
    reason = "node(s) exceeded more network cost limits of the pod's dependencies than they kept"
    affinity = "4 node(s) didn't match Pod's node affinity/selector"
    assert messages["safe"].startswith(f"0/6 nodes are available: 2 {reason}, {affinity}")
    assert "1 Node n-1 does not meet several network requirements" in messages["upstream"]
    assert "1 Node n-2 does not meet several network requirements" in messages["upstream"]


def test_many_nodes_share_the_last_reason_upstream() -> None:
    state = cluster(*(node(f"n-{number:03d}", labels={REGION: "a", ZONE: "y"}) for number in range(100)))
    state.upsert_node(node("far", labels={REGION: "a", ZONE: "z"}))
    state.upsert_pod(msgspec.structs.replace(member("p2", "b"), node_name="far"))
    state.objects.upsert("AppGroup", app_group({"p1": {"p2": 0}}))
    state.objects.upsert("NetworkTopology", topology({}, {"y": {"z": 1}}))
    explanation = explain(state.snapshot(NOW), member("p1"), profile("upstream"))
    refused = [name for name, explained in explanation.nodes() if not explained.feasible]
    assert len(refused) == 100


# What is missing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_a_pod_of_a_missing_app_group_is_scheduled_as_without_one(compatibility: str) -> None:
    """Upstream ends the process with a nil dereference."""
    decision = conclude(
        decide(basic(group=False).snapshot(NOW), member("p1"), profile(compatibility), random.Random(0))
    )
    assert decision.node
    assert decision.counters["app_group_missing/NetworkOverhead"] == 1


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_without_a_network_topology_only_zones_are_distinguished(compatibility: str) -> None:
    """Upstream ends the process with a nil dereference."""
    answers = asked(basic(costs=False), member("p1"), profile(compatibility))
    assert [answer[0] for answer in answers.values() if not isinstance(answer, str)] == [
        100,
        100,
        100,
        100,
        0,
        1,
        100,
        100,
    ]


def test_an_app_group_outside_the_namespaces_of_the_args_is_not_there() -> None:
    assert set(asked(basic(), member("p1"), profile(namespaces=["elsewhere"])).values()) == {(0, 0)}
    assert asked(basic(), member("p1"), profile(namespaces=["elsewhere", "default"]))["n-5"] == (0, 100)


def test_a_pod_without_app_group_is_left_alone() -> None:
    assert set(asked(basic(), pod("plain"), profile()).values()) == {(0, 0)}


def test_pods_of_other_groups_do_not_count() -> None:
    state = basic()
    state.objects.upsert("AppGroup", app_group(BASIC, "other"))
    assert set(asked(state, member("p1", group="other"), profile()).values()) == {(0, 0)}


def test_a_member_on_a_deleted_node_is_ignored() -> None:
    """Upstream fails the attempt: `pod hostname not found: nodeinfo not found for node name`."""
    state = basic()
    state.upsert_pod(msgspec.structs.replace(member("p2", "lost"), node_name="gone"))
    assert asked(state, member("p1"), profile())["n-5"] == (0, 100)


def test_a_way_that_costs_more_than_anybody_has_does_not_overflow() -> None:
    state = basic({"p1": {"p2": 0, "p3": 10000}})
    huge = {"us-west-1": {"us-east-1": (1 << 63) - 1}, "us-east-1": {"us-west-1": (1 << 63) - 1}}
    state.objects.upsert("NetworkTopology", topology(huge, ZONES))
    answers = asked(state, member("p1"), profile())
    assert all(0 <= answer[1] <= 100 for answer in answers.values() if not isinstance(answer, str))


def test_measured_costs_out_of_order_are_found_here_and_missed_upstream() -> None:
    backwards = dict(sorted(ZONES.items(), reverse=True))
    answers = {}
    for mode in ("safe", "upstream"):
        state = basic(GENEROUS, costs=False)
        state.objects.upsert("NetworkTopology", topology(REGIONS, backwards, weights="NetperfCosts"))
        answers[mode] = [
            answer[0] for answer in asked(state, member("p2"), profile(mode, weightsName="NetperfCosts")).values()
        ]
    assert answers["safe"][2] == 5
    assert answers["upstream"][2] == 100


def test_a_change_of_costs_or_labels_shows_at_once() -> None:
    state, scheduler = basic(GENEROUS), profile()
    assert asked(state, member("p2"), scheduler)["n-3"] == (5, 75)
    state.objects.upsert("NetworkTopology", topology(REGIONS, {**ZONES, "Z2": {"Z1": 8}}))
    assert asked(state, member("p2"), scheduler)["n-3"] == (8, 60)
    state.upsert_node(node("n-3", labels={REGION: "us-west-1", ZONE: "Z1"}))
    assert asked(state, member("p2"), scheduler)["n-3"] == (1, 95)


def test_pods_that_are_assumed_count() -> None:
    state = basic(GENEROUS)
    assert asked(state, member("p1"), profile())["n-1"] == (20, 0)
    state.assume(member("p2", "assumed"), "n-1", NOW)
    assert asked(state, member("p1"), profile())["n-1"] == (20, 100)
    assert asked(state, member("p1"), profile())["n-2"] == (21, 90)


# Waking ---------------------------------------------------------------------------------------------------------------


def test_what_wakes_a_rejected_pod() -> None:
    hints = profile().hint_registrations()[NAME]

    def wakes(event: ClusterEvent, old: object = None, new: object = None) -> bool:
        matching = [registration for registration in hints if event.matches(registration)]
        return any(
            registration.hint is None or registration.hint(waiting, old, new) is Hint.QUEUE for registration in matching
        )

    waiting = member("p1")
    pod_added = ClusterEvent("AssignedPod", ActionType.ADD, "AssignedPodAdd")
    assert wakes(pod_added, new=member("p2", "other"))
    assert not wakes(pod_added, new=member("p2", "other", "other"))
    assert not wakes(pod_added, new=pod("plain"))
    assert wakes(ClusterEvent("AssignedPod", ActionType.DELETE, ""), old=member("p2", "other"))
    assert wakes(ClusterEvent("UnschedulablePod", ActionType.UPDATE_POD_LABEL, ""), pod("new"), waiting)
    assert not wakes(ClusterEvent("AssignedPod", ActionType.UPDATE_POD_SCALE_DOWN, ""), waiting, waiting)
    assert wakes(ClusterEvent("Node", ActionType.UPDATE_NODE_LABEL, ""), node("a"), node("a"))
    assert not wakes(ClusterEvent("Node", ActionType.UPDATE_NODE_CONDITION, ""), node("a"), node("a"))
    assert wakes(ClusterEvent("AppGroup", ActionType.UPDATE, ""))
    assert wakes(ClusterEvent("NetworkTopology", ActionType.ADD, ""))


# A plain reference ----------------------------------------------------------------------------------------------------


def _reference(
    state: ClusterState, group: Any, costs: Any, info: PodInfo, weights: str
) -> dict[str, tuple[int, int, int]]:
    """Satisfied, violated and cost by node: pod by pod and node by node, as it reads in the Go code."""
    needs = [
        dependency
        for listed in group.spec.workloads
        if listed.workload.selector == info.labels.get(WORKLOAD, "")
        for dependency in listed.dependencies
    ]
    by_node = {}
    for name in state.node_names:
        region, zone = _place(state, name)
        table: dict[tuple[str, str], int] = {}
        for weight in costs.spec.weights:
            if weight.name == weights:
                for key, origin in ((REGION, region), (ZONE, zone)):
                    for network in weight.topology_list:
                        for listed in network.origin_list:
                            if origin and network.topology_key == key and listed.origin == origin:
                                table.update(((origin, way.destination), way.network_cost) for way in listed.cost_list)
        satisfied = violated = cost = 0
        for other in state.node_names:
            for placed in state.pods_on(other):
                if placed.labels.get(GROUP) != info.labels.get(GROUP):
                    continue
                for need in needs:
                    if placed.labels.get(WORKLOAD, "") != need.workload.selector:
                        continue
                    place = _place(state, other)
                    if other == name:
                        satisfied += 1
                    elif place == ("", ""):
                        violated, cost = violated + 1, cost + 100
                    elif place == (region, zone):
                        satisfied, cost = satisfied + 1, cost + 1
                    else:
                        way = table.get((zone, place[1]) if place[0] == region else (region, place[0]))
                        cost += 100 if way is None else way
                        if way is not None:
                            satisfied += way <= need.max_network_cost
                            violated += way > need.max_network_cost
        by_node[name] = (satisfied, violated, cost)
    return by_node


def _place(state: ClusterState, name: str) -> tuple[str, str]:
    info = state.node(name)
    assert info is not None
    return info.labels.get(REGION, ""), info.labels.get(ZONE, "")


def _random_costs(rng: random.Random, names: Iterable[str]) -> dict[str, dict[str, int]]:
    return {
        origin: {other: rng.choice((0, 3, 10, 40, 100, 250)) for other in names if rng.random() < 0.7}
        for origin in names
        if rng.random() < 0.8
    }


@pytest.mark.parametrize("seed", range(60))
def test_a_plain_reference_agrees_on_random_clusters(seed: int) -> None:
    rng = random.Random(seed)
    regions, zones = ["", "r1", "r2", "same"], ["", "z1", "z2", "z3", "same"]
    state = ClusterState()
    for number in range(rng.randint(2, 12)):
        labels = {REGION: rng.choice(regions), ZONE: rng.choice(zones)}
        state.upsert_node(node(f"n{number}", labels={key: value for key, value in labels.items() if value}))
    workloads = ["w1", "w2", "w3", ""]
    group = app_group(
        {workload: {other: rng.choice((0, 3, 50, 200)) for other in rng.sample(workloads, 2)} for workload in workloads}
    )
    costs = topology(_random_costs(rng, regions[1:]), _random_costs(rng, zones[1:]))
    state.objects.upsert("AppGroup", group)
    state.objects.upsert("NetworkTopology", costs)
    names = sorted(state.node_names)
    scheduler = profile(rng.choice(("safe", "upstream")))
    for number in range(rng.randint(0, 25)):
        placed = member(rng.choice(workloads), f"p{number}", rng.choice(("basic", "basic", "other")))
        if rng.random() < 0.2:
            placed = msgspec.structs.replace(placed, labels={GROUP: "basic"})
        state.upsert_pod(msgspec.structs.replace(placed, node_name=rng.choice(names)))
    if rng.random() < 0.5 and len(names) > 2:
        gone = names.pop()
        for pod_on_node in list(state.pods_on(gone)):
            state.remove_pod(pod_on_node.uid)
        state.remove_node(gone)
    for workload in workloads:
        info = member(workload)
        expected = _reference(state, group, costs, info, "UserDefined")
        answers = asked(state, info, scheduler)
        for name, (satisfied, violated, cost) in expected.items():
            verdict = answers[name]
            if violated > satisfied:
                assert isinstance(verdict, str), (seed, workload, name)
            else:
                assert verdict[0] == cost, (seed, workload, name, expected, answers)


def test_it_looks_at_placed_pods_once_per_node_not_once_per_pod() -> None:
    """2,000 nodes and 4,000 pods: fast enough for every attempt, as counts are kept."""
    state = cluster(*(node(f"n{number}", labels={REGION: "r", ZONE: f"z{number % 10}"}) for number in range(2000)))
    for number in range(4000):
        state.upsert_pod(msgspec.structs.replace(member("p2", f"p{number}"), node_name=f"n{number % 2000}"))
    state.objects.upsert("AppGroup", app_group({"p1": {"p2": 0}}))
    answers = asked(state, member("p1"), profile())
    raw = np.array([answer[0] for answer in answers.values() if not isinstance(answer, str)])
    # Per node: its own two pods, 398 in the zone, and 3,600 elsewhere at 100 each.
    assert set(raw.tolist()) == {398 + 3600 * 100}
