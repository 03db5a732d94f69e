# ruff: noqa: E501 -- tables with one case to a line
"""Which events wake a pod that a plugin rejected."""

import msgspec
import pytest

from scheduler.framework import Hint, PodInfo
from tests.unit.scheduler.core.builders import container, node, pod, runner

PROFILE = runner(
    args={
        "NodeAffinity": {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["closed"]}]}
                    ]
                }
            }
        }
    }
)
GPU = {"example.com/gpu": "1"}
TAINT = [("k", "v", "NoSchedule")]


def bound(info: PodInfo) -> PodInfo:
    return msgspec.structs.replace(info, node_name="n")


MINE = pod("mine", container("2", "1Gi", requests=GPU), nodeSelector={"zone": "a"})
TOLERANT = pod("mine", container("2", "1Gi", requests=GPU), tolerations=[{"operator": "Exists"}])
ROOMY = {"example.com/gpu": "4"}

CASES = [
    ("NodeResourcesFit", 0, bound(pod("other")), None, Hint.QUEUE, "an assigned pod leaves"),
    ("NodeResourcesFit", 0, pod("other"), None, Hint.SKIP, "a waiting pod leaves"),
    ("NodeResourcesFit", 1, pod("mine"), MINE, Hint.QUEUE, "its own request shrinks"),
    ("NodeResourcesFit", 1, bound(pod("o", container("2"))), bound(pod("o", container("1"))), Hint.QUEUE, "an assigned pod shrinks in cpu"),
    ("NodeResourcesFit", 1, bound(pod("o", container(requests={"ephemeral-storage": "5Gi"}))), bound(pod("o")), Hint.SKIP, "an assigned pod shrinks in nothing we need"),
    ("NodeResourcesFit", 1, pod("o", container("2")), pod("o", container("1")), Hint.SKIP, "a waiting pod shrinks"),
    ("NodeResourcesFit", 2, None, node("n", allocatable=ROOMY), Hint.QUEUE, "a node that fits is added"),
    ("NodeResourcesFit", 2, None, node("n"), Hint.SKIP, "a node without the resource is added"),
    ("NodeResourcesFit", 2, node("n", allocatable={**ROOMY, "cpu": "3"}), node("n", allocatable=ROOMY), Hint.QUEUE, "cpu grows"),
    ("NodeResourcesFit", 2, node("n", allocatable=ROOMY), node("n", allocatable={**ROOMY, "cpu": "3"}), Hint.SKIP, "cpu shrinks"),
    ("NodeResourcesFit", 2, node("n", allocatable=ROOMY), node("n", allocatable={**ROOMY, "pods": "111"}), Hint.QUEUE, "pods grow"),
    ("NodeUnschedulable", 0, None, node("n"), Hint.QUEUE, "an open node is added"),
    ("NodeUnschedulable", 0, node("n", unschedulable=True), node("n"), Hint.QUEUE, "uncordoned"),
    ("NodeUnschedulable", 0, node("n"), node("n"), Hint.SKIP, "was open already"),
    ("NodeUnschedulable", 0, None, node("n", unschedulable=True), Hint.SKIP, "a cordoned node is added"),
    ("NodeUnschedulable", 1, MINE, TOLERANT, Hint.QUEUE, "tolerates it now"),
    ("NodeUnschedulable", 1, MINE, MINE, Hint.SKIP, "tolerates something else"),
    ("NodeUnschedulable", 1, MINE, pod("other", tolerations=[{"operator": "Exists"}]), Hint.SKIP, "another pod tolerates"),
    ("TaintToleration", 0, None, node("n"), Hint.QUEUE, "a clean node is added"),
    ("TaintToleration", 0, None, node("n", taints=TAINT), Hint.SKIP, "a tainted node is added"),
    ("TaintToleration", 0, node("n", taints=TAINT), node("n"), Hint.QUEUE, "a taint goes"),
    ("TaintToleration", 0, node("n"), node("n", labels={"a": "b"}), Hint.SKIP, "was clean before"),
    ("TaintToleration", 1, MINE, TOLERANT, Hint.QUEUE, "own toleration"),
    ("NodeAffinity", 0, None, node("n", labels={"zone": "a"}), Hint.QUEUE, "a matching node is added"),
    ("NodeAffinity", 0, None, node("n", labels={"zone": "b"}), Hint.SKIP, "another zone is added"),
    ("NodeAffinity", 0, node("n"), node("n", labels={"zone": "a"}), Hint.QUEUE, "starts to match"),
    ("NodeAffinity", 0, node("n", labels={"zone": "a"}), node("n", labels={"zone": "a", "x": "y"}), Hint.SKIP, "matched before"),
    ("NodeAffinity", 0, None, node("n", labels={"zone": "a", "pool": "closed"}), Hint.SKIP, "closed by the profile"),
    ("NodeAffinity", 0, node("n", labels={"zone": "a", "pool": "closed"}), node("n", labels={"zone": "a"}), Hint.QUEUE, "opened for the profile"),
    ("SchedulingGates", 0, MINE, MINE, Hint.QUEUE, "own gates"),
    ("SchedulingGates", 0, MINE, pod("other"), Hint.SKIP, "another pod's gates"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plugin", "index", "old", "new", "expected"),
    [case[:5] for case in CASES],
    ids=[f"{case[0]}: {case[5]}" for case in CASES],
)
def test_a_hint(plugin: str, index: int, old: object, new: object, expected: Hint) -> None:
    registration = PROFILE.plugins[plugin].events_to_register()[index]
    assert registration.hint(MINE, old, new) is expected


def test_added_affinity_keeps_pods_off_in_the_profiles_name() -> None:
    from scheduler.core import explain
    from tests.unit.scheduler.core.builders import NOW, cluster

    state = cluster(node("open"), node("closed", labels={"pool": "closed"}))
    explanation = explain(state.snapshot(NOW), pod("p"), PROFILE)
    assert explanation.best == ("open",)
    assert explanation.node("closed").rejection.reasons == ("node(s) didn't match scheduler-enforced node affinity",)


def test_image_locality_scores_as_the_live_scheduler_was_seen_to() -> None:
    from scheduler.core import explain
    from tests.unit.scheduler.core.builders import NOW, cluster

    state = cluster(
        *(node(f"n{index}", images={"app:latest": 800_000_000} if index == 0 else {}) for index in range(4))
    )
    explanation = explain(state.snapshot(NOW), pod("p", container(image="app")), runner())
    assert [explanation.node(f"n{index}").scores["ImageLocality"].raw for index in range(4)] == [17, 0, 0, 0]


def test_ignored_resources_are_not_filtered_on() -> None:
    from scheduler.core import explain
    from tests.unit.scheduler.core.builders import NOW, cluster

    state = cluster(node("n"))
    info = pod("p", container("1", requests={"example.com/gpu": "1", "other.com/x": "1"}))
    args = {"ignoredResources": ["example.com/gpu"], "ignoredResourceGroups": ["other.com"]}
    assert explain(state.snapshot(NOW), info, runner()).message == (
        "0/1 nodes are available: 1 Insufficient example.com/gpu, 1 Insufficient other.com/x."
    )
    assert explain(state.snapshot(NOW), info, runner(args={"NodeResourcesFit": args})).best == ("n",)


def test_amounts_beyond_82_tebibytes_divide_as_integers() -> None:
    from scheduler.core import explain
    from tests.unit.scheduler.core.builders import NOW, cluster

    allocatable = 3 * 10**15 + 1
    # One byte short of an exact percentage, which a float64 quotient rounds to the percentage itself.
    request = allocatable - (allocatable * 7 // 100)
    state = cluster(node("n", allocatable={"memory": str(allocatable), "cpu": "100000"}))
    strategy = {"type": "LeastAllocated", "resources": [{"name": "memory", "weight": 1}]}
    profile = runner(args={"NodeResourcesFit": {"scoringStrategy": strategy}})
    explanation = explain(state.snapshot(NOW), pod("p", container("1", str(request))), profile)
    assert explanation.node("n").scores["NodeResourcesFit"].raw == (allocatable - request) * 100 // allocatable == 6


ROOMIER = node("n", allocatable=ROOMY)
NOMINATED = msgspec.structs.replace(MINE, nominated_node="n")


@pytest.mark.parametrize(
    ("mine", "old", "new", "hint"),
    [
        pytest.param(
            NOMINATED, ROOMIER, node("n", allocatable={**ROOMY, "cpu": "1"}), Hint.QUEUE, id="its node shrank"
        ),
        pytest.param(MINE, ROOMIER, node("n", allocatable={**ROOMY, "cpu": "1"}), Hint.SKIP, id="another node shrank"),
        pytest.param(NOMINATED, ROOMIER, node("n"), Hint.SKIP, id="its node lost devices, maybe for a moment"),
        pytest.param(
            NOMINATED,
            node("n", allocatable={**ROOMY, "memory": "512Mi"}),
            node("n", allocatable={**ROOMY, "cpu": "1"}),
            Hint.SKIP,
            id="it did not fit before",
        ),
        pytest.param(NOMINATED, None, node("n", allocatable={**ROOMY, "cpu": "1"}), Hint.SKIP, id="its node is new"),
        pytest.param(
            msgspec.structs.replace(NOMINATED, scheduling_group="g"),
            ROOMIER,
            node("n", allocatable={**ROOMY, "cpu": "1"}),
            Hint.SKIP,
            id="it preempts with its group",
        ),
    ],
)
def test_a_nominated_node_that_became_too_small_wakes_the_pod_from_1_38_on(
    mine: PodInfo, old: object, new: object, hint: Hint
) -> None:
    for version, expected in (("1.37", Hint.SKIP), ("1.38", hint)):
        registration = runner(kubernetes=version).hint_registrations()["NodeResourcesFit"][2]
        assert registration.hint is not None
        assert registration.hint(mine, old, new) is expected, version
