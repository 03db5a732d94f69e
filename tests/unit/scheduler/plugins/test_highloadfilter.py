"""HighLoadFilter: the situations of upstream's test table in both modes, and what only `safe` has."""

import math
import random
from typing import Any

import msgspec
import pytest

from scheduler.answers import NodeRejection
from scheduler.core import decide, explain
from scheduler.core.decide import run_post_filters
from scheduler.framework import (
    ASSIGNED_POD_DELETE,
    NODE_LOAD_UPDATE,
    Code,
    Hint,
    LoadReading,
    NodeLoad,
    PodInfo,
    ProfileRunner,
    conclude,
)
from scheduler.plugins.highloadfilter import HighLoadFilter
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, SOURCE, WATCHER, cluster, container, node, pod, runner

NAME = "HighLoadFilter"
CPU = "node predicted CPU utilization exceeds the HighLoadFilter threshold"
MEMORY = "node predicted memory utilization exceeds the HighLoadFilter threshold"
UNAVAILABLE = "node real-load metrics are unavailable"
STALE = "node real-load metrics are stale"
ENABLED = {"preFilter": {"enabled": [{"name": NAME}]}, "filter": {"enabled": [{"name": NAME}]}}
ONE = {"cpu": "1", "memory": "1Gi"}


def profile(
    cpu: int = 60,
    memory: int = 60,
    *,
    fail_open: bool = True,
    limit: dict[str, Any] | None = None,
    compatibility: str = "safe",
    **args: Any,
) -> ProfileRunner:
    """A profile with the default plugins and the limit; `reject` unless `limit` says otherwise."""
    own = {
        "watcherAddress": WATCHER,
        "usageThresholds": {"cpu": cpu, "memory": memory},
        "failOpen": fail_open,
        **args,
    }
    options = {"load": {"limit": {"whenAllExceed": "reject"} if limit is None else limit}}
    return runner(ENABLED, {NAME: own}, compatibility=compatibility, options=options)


def reading(loads: dict[str, NodeLoad], *, age: float = 0.0) -> LoadReading:
    return LoadReading(loads, NOW - age, source=SOURCE, answered_at=NOW - age)


def used(cpu: float = math.nan, memory: float = math.nan, *, age: float = 0.0) -> NodeLoad:
    return NodeLoad(cpu_average=cpu, memory_average=memory, measured_at=NOW - age)


def loaded(*names: str, load: LoadReading | None, allocatable: dict[str, str] | None = None) -> ClusterState:
    state = cluster(*(node(name, allocatable=allocatable or ONE) for name in names or ("node-1",)))
    if load is not None:
        state.set_load(load)
    return state


def verdict(state: ClusterState, pod_info: PodInfo, runs: ProfileRunner, name: str = "node-1") -> tuple[str, str]:
    """Return the code and the reasons of the plugin's rejection of a node, empty where it passes."""
    rejection = explain(state.snapshot(NOW), pod_info, runs).node(name).rejection
    if rejection is None:
        return "", ""
    assert rejection.plugin == NAME
    return rejection.code.name, rejection.message


SITUATIONS: dict[str, tuple[LoadReading | None, bool, int, int, str | None, str | None, str]] = {
    "below both thresholds": (reading({"node-1": used(30, 40)}), False, 60, 60, "100m", "100Mi", ""),
    "equal to the threshold": (reading({"node-1": used(50, 50)}), False, 60, 60, "100m", "100Mi", ""),
    "CPU measured above": (reading({"node-1": used(70, 30)}), True, 60, 90, None, None, CPU),
    "CPU above with the pod's request": (reading({"node-1": used(55, 30)}), True, 60, 90, "100m", None, CPU),
    "memory above with the pod's request": (reading({"node-1": used(20, 55)}), True, 90, 60, None, "100Mi", MEMORY),
    "no answer yet, open": (None, True, 60, 60, None, None, ""),
    "no answer yet, closed": (None, False, 60, 60, None, None, UNAVAILABLE),
    "too old, open": (reading({"node-1": used(90, 90, age=181)}, age=181), True, 60, 60, None, None, ""),
    "too old, closed": (reading({"node-1": used(10, 10, age=181)}, age=181), False, 60, 60, None, None, STALE),
    "node missing, closed": (reading({}), False, 60, 60, None, None, UNAVAILABLE),
    "memory missing, CPU above, open": (reading({"node-1": used(80)}), True, 60, 60, None, None, CPU),
    "memory missing, CPU below, open": (reading({"node-1": used(20)}), True, 60, 60, None, None, ""),
    "memory missing, CPU below, closed": (reading({"node-1": used(20)}), False, 60, 60, None, None, UNAVAILABLE),
}


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
@pytest.mark.parametrize("situation", sorted(SITUATIONS))
def test_each_situation_of_upstreams_table_has_its_outcome(situation: str, compatibility: str) -> None:
    load, fail_open, cpu, memory, cpu_request, memory_request, wanted = SITUATIONS[situation]
    runs = profile(cpu, memory, fail_open=fail_open, compatibility=compatibility)
    code, message = verdict(loaded(load=load), pod("p", container(cpu_request, memory_request)), runs)
    if not wanted:
        assert (code, message) == ("", "")
    elif compatibility == "upstream":
        assert (code, message) == ("UNSCHEDULABLE", wanted)
    else:
        assert code == "UNSCHEDULABLE_AND_UNRESOLVABLE"
        assert message.startswith(wanted)


def test_the_limit_is_off_by_default() -> None:
    assert NAME not in runner().plugins


# What is measured -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_what_cannot_be_a_load_is_unavailable(value: float, compatibility: str) -> None:
    state = loaded(load=reading({"node-1": used(value, 10)}))
    assert verdict(state, pod("p"), profile(compatibility=compatibility)) == ("", "")
    _, message = verdict(state, pod("p"), profile(fail_open=False, compatibility=compatibility))
    assert message == UNAVAILABLE


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_an_answer_without_a_time_is_unavailable(compatibility: str) -> None:
    load = LoadReading({"node-1": NodeLoad(cpu_average=99, memory_average=99)}, 0.0, source=SOURCE, answered_at=0.0)
    assert verdict(loaded(load=load), pod("p"), profile(compatibility=compatibility)) == ("", "")
    _, message = verdict(loaded(load=load), pod("p"), profile(fail_open=False, compatibility=compatibility))
    assert message == UNAVAILABLE


def test_each_node_has_an_age_of_its_own() -> None:
    load = reading({"old": used(10, 10, age=200), "new": used(10, 10)})
    state = loaded("old", "new", load=load)
    runs = profile(fail_open=False)
    assert verdict(state, pod("p"), runs, "old")[1] == STALE
    assert verdict(state, pod("p"), runs, "new") == ("", "")
    as_upstream = profile(fail_open=False, compatibility="upstream")
    assert verdict(state, pod("p"), as_upstream, "old") == ("", "")


def test_a_node_that_offers_nothing_is_full_with_any_request() -> None:
    state = loaded(load=reading({"node-1": used(0, 0)}), allocatable={"cpu": "0", "memory": "1Gi"})
    alone = runner(
        {**ENABLED, "filter": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]}},
        {NAME: {"watcherAddress": WATCHER}},
        options={"load": {"limit": {"whenAllExceed": "reject"}}},
    )
    assert verdict(state, pod("p"), alone) == ("", "")
    assert "over 999%" in verdict(state, pod("p", container("1m")), alone)[1]


# Numbers --------------------------------------------------------------------------------------------------------------


def test_messages_tell_the_predicted_share_and_its_range() -> None:
    load = reading({"a": used(70, 10), "b": used(85.25, 10), "c": used(10, 61)})
    state = loaded("a", "b", "c", load=load)
    info = pod("p", container("100m"))
    explanation = explain(state.snapshot(NOW), info, profile())
    assert explanation.message == (
        f"0/3 nodes are available: 1 {MEMORY} (61.0%, threshold 60%), 2 {CPU} (80.0% to 95.3%, threshold 60%)."
    )
    reasons = (f"{CPU} (95.3%, threshold 60%)",)
    assert explanation.node("b").answer().filter == NodeRejection(NAME, "UnschedulableAndUnresolvable", reasons)


# Where every node is above --------------------------------------------------------------------------------------------


def test_the_filter_steps_back_where_it_would_leave_no_node() -> None:
    state = loaded("a", "b", load=reading({"a": used(90, 10), "b": used(70, 10)}))
    runs = profile(limit={})
    placement = conclude(decide(state.snapshot(NOW), pod("p"), runs, random.Random(1)))
    assert placement.code is Code.SUCCESS
    assert placement.feasible == 2
    assert placement.counters == {f"stepped_back/{NAME}": 1}
    range_text = f"{CPU} (70.0% to 90.0%, threshold 60%)"
    assert placement.remark == f"{NAME} stepped back, as no other node was left: 2 {range_text}"
    taken_back = explain(state.snapshot(NOW), pod("p"), runs).diagnosis.taken_back
    assert [rejection.histogram() for rejection in taken_back] == [
        {range_text: 2},
    ]


def test_one_node_below_the_limit_is_enough_for_it_to_hold() -> None:
    state = loaded("a", "b", load=reading({"a": used(90, 10), "b": used(50, 10)}))
    placement = conclude(decide(state.snapshot(NOW), pod("p"), profile(limit={}), random.Random(1)))
    assert (placement.node, placement.feasible, placement.counters, placement.remark) == ("b", 1, {}, "")


def test_it_steps_back_whatever_other_filters_leave_and_in_any_order() -> None:
    state = cluster(node("hot", labels={"pool": "x"}, allocatable=ONE), node("cool", allocatable=ONE))
    state.set_load(reading({"hot": used(90, 10), "cool": used(10, 10)}))
    wanted = pod("p", nodeSelector={"pool": "x"})
    for first in (ENABLED, {"multiPoint": {"enabled": [{"name": NAME}]}}):
        args = {NAME: {"watcherAddress": WATCHER, "usageThresholds": {"cpu": 60, "memory": 60}}}
        assert conclude(decide(state.snapshot(NOW), wanted, runner(first, args), random.Random(1))).node == "hot"


def test_nodes_that_have_to_be_measured_and_are_not_stay_refused() -> None:
    state = loaded("hot", "unknown", load=reading({"hot": used(90, 10)}))
    placement = conclude(decide(state.snapshot(NOW), pod("p"), profile(fail_open=False, limit={}), random.Random(1)))
    assert placement.node == "hot"
    only_unknown = loaded("unknown", load=reading({}))
    refused = conclude(
        decide(only_unknown.snapshot(NOW), pod("p"), profile(fail_open=False, limit={}), random.Random(1))
    )
    assert (refused.node, refused.counters) == (None, {})
    assert UNAVAILABLE in (refused.message or "")


def test_a_pod_that_fits_nowhere_for_another_reason_is_told_that_reason_only() -> None:
    state = loaded("a", load=reading({"a": used(90, 10)}))
    placement = conclude(decide(state.snapshot(NOW), pod("p", container("2")), profile(limit={}), random.Random(1)))
    assert placement.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert placement.rejectors == {"NodeResourcesFit"}


def test_upstream_never_steps_back() -> None:
    state = loaded("a", load=reading({"a": used(90, 10)}))
    placement = conclude(
        decide(state.snapshot(NOW), pod("p"), profile(limit={}, compatibility="upstream"), random.Random(1))
    )
    assert placement.node is None


def test_a_nominated_pod_goes_elsewhere_if_its_node_has_become_hot() -> None:
    state = loaded("hot", "cool", load=reading({"hot": used(90, 10), "cool": used(10, 10)}))
    waiting = msgspec.structs.replace(pod("p"), nominated_node="hot")
    assert conclude(decide(state.snapshot(NOW), waiting, profile(limit={}), random.Random(1))).node == "cool"


# Preemption -----------------------------------------------------------------------------------------------------------


def preempted(state: ClusterState, info: PodInfo, runs: ProfileRunner) -> tuple[str | None, list[str]]:
    view = state.snapshot(NOW)
    placement = conclude(decide(view, info, runs, random.Random(1)))
    assert placement.node is None
    outcome = conclude(run_post_filters(view, placement, runs))
    return outcome.nominated_node, [victim.name for victim in outcome.victims]


def test_no_pod_is_preempted_for_load() -> None:
    state = cluster(node("a", allocatable=ONE), pods={"a": [pod("victim", container("500m"))]})
    state.set_load(reading({"a": used(90, 10)}))
    important = pod("p", container("100m"), priority=100)
    assert preempted(state, important, profile()) == ("", [])


def test_room_is_made_below_the_limit_only_where_the_limit_rejects() -> None:
    full = {name: [pod(f"victim-{name}", container("1"))] for name in ("hot", "cool")}
    state = cluster(node("hot", allocatable=ONE), node("cool", allocatable=ONE), pods=full)
    state.set_load(reading({"hot": used(90, 10), "cool": used(10, 10)}))
    important = pod("p", container("100m"), priority=100)
    assert preempted(state, important, profile()) == ("cool", ["victim-cool"])
    state.set_load(reading({"hot": used(90, 10), "cool": used(90, 10)}))
    assert preempted(state, important, profile()) == ("", [])


def test_where_it_steps_back_an_important_pod_gets_room_on_a_hot_node_and_the_node_itself() -> None:
    state = cluster(node("hot", allocatable=ONE), pods={"hot": [pod("victim", container("1"))]})
    state.set_load(reading({"hot": used(90, 10)}))
    important, runs = pod("p", container("1"), priority=100), profile(limit={})
    assert preempted(state, important, runs) == ("hot", ["victim"])
    state.remove_pod("uid-victim")
    waiting = msgspec.structs.replace(important, nominated_node="hot")
    assert conclude(decide(state.snapshot(NOW), waiting, runs, random.Random(1))).node == "hot"


# Exempt pods ----------------------------------------------------------------------------------------------------------


def pinned(name: str, to: str, **more: Any) -> PodInfo:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [to]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return pod(name, affinity={"nodeAffinity": required}, **more)


OWNED = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]
}


def exempted(info: PodInfo, exempt: list[str] | None = None, compatibility: str = "safe") -> bool:
    limit: dict[str, Any] = {"whenAllExceed": "reject"} | ({} if exempt is None else {"exempt": exempt})
    state = loaded("a", load=reading({"a": used(90, 90)}))
    runs = profile(limit=limit, compatibility=compatibility)
    return conclude(decide(state.snapshot(NOW), info, runs, random.Random(1))).node == "a"


def test_pods_that_one_node_only_can_run_are_exempt() -> None:
    assert exempted(pinned("p", "a"))
    assert exempted(pinned("p", "a", metadata=OWNED))
    assert exempted(pod("p", nodeSelector={"kubernetes.io/hostname": "a"}))
    assert not exempted(pod("p"))
    assert not exempted(pod("p", nodeSelector={}))


def test_daemon_sets_alone_can_be_exempt() -> None:
    assert exempted(pinned("p", "a", metadata=OWNED), ["DaemonSet"])
    assert not exempted(pinned("p", "a"), ["DaemonSet"])
    assert not exempted(pinned("p", "a", metadata=OWNED), [])


def test_a_pod_that_only_claims_to_be_of_a_daemon_set_is_not_exempt() -> None:
    assert not exempted(pod("p", metadata=OWNED))
    assert not exempted(pod("p", metadata=OWNED), ["DaemonSet"])


def test_pods_of_one_class_are_told_apart_by_their_owner() -> None:
    state = loaded("a", load=reading({"a": used(90, 90)}))
    runs = profile(limit={"whenAllExceed": "reject", "exempt": ["DaemonSet"]})
    for number in range(3):
        for owned in (True, False):
            info = pinned(f"p{number}-{owned}", "a", metadata=OWNED if owned else {})
            node_name = conclude(decide(state.snapshot(NOW), info, runs, random.Random(1))).node
            assert node_name == ("a" if owned else None)


def test_upstream_exempts_no_pod() -> None:
    assert not exempted(pinned("p", "a", metadata=OWNED), compatibility="upstream")


# Pods that are not measured yet ---------------------------------------------------------------------------------------


def burst(runs: ProfileRunner, pods: int, *, measured: float) -> tuple[ClusterState, list[PodInfo]]:
    """Place pods of 1 % each, as long as they are placed."""
    state = loaded("a", "b", load=reading({"a": used(measured, 0), "b": used(measured, 0)}), allocatable={"cpu": "10"})
    placed = []
    for number in range(pods):
        info = pod(f"p{number}", container("100m"))
        name = conclude(decide(state.snapshot(NOW), info, runs, random.Random(number))).node
        if name is None:
            break
        placed.append(state.assume(info, name, NOW))
    return state, placed


def test_a_burst_never_takes_a_node_above_the_limit_by_estimate() -> None:
    # Both nodes have room for five pods below the limit, and for 98 by requests.
    state, placed = burst(profile(), 100, measured=55.0)
    assert len(placed) == 10
    counts = [sum(info.node_name == name for info in placed) for name in ("a", "b")]
    assert counts == [5, 5]
    message = (
        conclude(decide(state.snapshot(NOW), pod("more", container("100m")), profile(), random.Random(1))).message or ""
    )
    assert "61.0%, threshold 60%" in message


def test_a_burst_counts_once_only_after_it_is_measured() -> None:
    runs = profile()
    state, _ = burst(runs, 100, measured=55.0)
    late = NOW + 120.0
    state.set_load(
        LoadReading({name: NodeLoad(60.0, memory_average=0, measured_at=late) for name in "ab"}, late, source=SOURCE)
    )
    rejection = explain(state.snapshot(late), pod("more", container("100m")), runs).node("a").rejection
    assert rejection is not None
    assert rejection.message == f"{CPU} (61.0%, threshold 60%)"


@pytest.mark.parametrize(
    "runs",
    [profile(limit={"whenAllExceed": "reject", "countUnmeasured": False}), profile(compatibility="upstream")],
    ids=["switched off", "upstream"],
)
def test_a_burst_is_not_seen_where_it_is_not_counted(runs: ProfileRunner) -> None:
    assert len(burst(runs, 30, measured=55.0)[1]) == 30


# Waking ---------------------------------------------------------------------------------------------------------------


def hint_of(runs: ProfileRunner, event: Any, info: PodInfo, old: Any = None, new: Any = None) -> list[Hint]:
    registrations = [entry for entry in runs.hint_registrations()[NAME] if event.matches(entry)]
    return [entry.hint(info, old, new) if entry.hint else Hint.QUEUE for entry in registrations]


def test_a_load_wakes_the_pods_of_a_refused_node_once_it_is_below_its_limit() -> None:
    runs, info = profile(), pod("p", container("100m"))
    state = loaded("a", "b", load=reading({"a": used(90, 10), "b": used(95, 10)}))
    assert conclude(decide(state.snapshot(NOW), info, runs, random.Random(1))).node is None
    state.set_load(reading({"a": used(51, 10), "b": used(95, 10)}))
    assert hint_of(runs, NODE_LOAD_UPDATE, info, new=state.snapshot(NOW)) == [Hint.SKIP]
    state.set_load(reading({"a": used(50, 10), "b": used(95, 10)}))
    assert hint_of(runs, NODE_LOAD_UPDATE, info, new=state.snapshot(NOW)) == [Hint.QUEUE]


def test_a_load_does_not_wake_pods_that_the_cooler_node_was_not_refused_to() -> None:
    state = loaded("hot", "full", load=reading({"hot": used(90, 10), "full": used(10, 10)}))
    state.upsert_pod(msgspec.structs.replace(pod("x", container("1")), node_name="full"), NOW)
    runs, info = profile(), pod("p", container("100m"))
    assert conclude(decide(state.snapshot(NOW), info, runs, random.Random(1))).node is None
    state.set_load(reading({"hot": used(90, 10), "full": used(5, 10)}))
    assert hint_of(runs, NODE_LOAD_UPDATE, info, new=state.snapshot(NOW)) == [Hint.SKIP]


def test_a_load_that_has_become_too_old_wakes_pods_where_that_lets_them_pass() -> None:
    state = loaded("a", load=reading({"a": used(90, 10)}))
    runs, info = profile(), pod("p")
    assert conclude(decide(state.snapshot(NOW), info, runs, random.Random(1))).node is None
    assert hint_of(runs, NODE_LOAD_UPDATE, info, new=state.snapshot(NOW + 180)) == [Hint.SKIP]
    assert hint_of(runs, NODE_LOAD_UPDATE, info, new=state.snapshot(NOW + 181)) == [Hint.QUEUE]


def test_pods_are_woken_if_nodes_have_come_since_they_were_refused() -> None:
    state = loaded("a", load=reading({"a": used(90, 10)}))
    runs, info = profile(), pod("p")
    assert conclude(decide(state.snapshot(NOW), info, runs, random.Random(1))).node is None
    state.upsert_node(node("b", allocatable=ONE))
    assert hint_of(runs, NODE_LOAD_UPDATE, info, new=state.snapshot(NOW)) == [Hint.QUEUE]


def test_a_class_is_looked_at_once_however_many_of_its_pods_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    state = loaded("a", load=reading({"a": used(90, 10)}))
    runs = profile()
    assert conclude(decide(state.snapshot(NOW), pod("p"), runs, random.Random(1))).node is None
    looks: list[str] = []
    shares = HighLoadFilter._shares

    def counted(self: HighLoadFilter, *args: Any) -> Any:
        looks.append("look")
        return shares(self, *args)

    monkeypatch.setattr(HighLoadFilter, "_shares", counted)
    view = state.snapshot(NOW)
    for number in range(50):
        hint_of(runs, NODE_LOAD_UPDATE, pod(f"p{number}"), new=view)
    assert len(looks) == 1


def test_a_pod_that_ends_wakes_others_while_it_is_not_measured() -> None:
    runs = profile()
    _, placed = burst(runs, 100, measured=55.0)
    waiting = pod("more", container("100m"))
    assert hint_of(runs, ASSIGNED_POD_DELETE, waiting, old=placed[0]) == [Hint.QUEUE]
    measured = msgspec.structs.replace(placed[0], assigned_at=NOW - 3600)
    assert hint_of(runs, ASSIGNED_POD_DELETE, waiting, old=measured) == [Hint.SKIP]


def test_upstream_is_not_woken_by_loads() -> None:
    runs = profile(compatibility="upstream")
    assert hint_of(runs, NODE_LOAD_UPDATE, pod("p")) == []
    assert hint_of(runs, ASSIGNED_POD_DELETE, pod("p")) == [Hint.QUEUE]
