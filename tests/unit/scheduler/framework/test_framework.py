"""Statuses, verdicts, events, the node-by-node adapter, and the extension points after scoring. Filters and scores
are tested by core."""

import math
import random
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from scheduler.catalog import ActionType, ExtensionPoint
from scheduler.config import EffectiveProfile
from scheduler.config.expand import EnabledPlugin
from scheduler.core import decide, explain
from scheduler.framework import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE,
    NODE_ADD,
    POD,
    SUCCESS,
    UNSCHEDULABLE_POD_ADD,
    Code,
    CycleState,
    Diagnosis,
    HintRegistration,
    IntArray,
    NodeInfo,
    NodeView,
    PodInfo,
    ProfileRunner,
    RowArray,
    Status,
    Verdicts,
    conclude,
    failure,
    filter_by_node,
    node_update_events,
    pod_update_events,
    reject,
    score_by_node,
    unresolvable,
    unschedulable,
)
from scheduler.plugins import FACTORIES
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod, runner

P = ExtensionPoint
A = ActionType


def test_a_status_words_its_error_before_its_reasons() -> None:
    assert Status(Code.ERROR, ("a", "b"), "X", "broken").message == "broken, a, b"
    assert unschedulable("a", "b").message == "a, b"
    assert unresolvable("a").with_plugin("X").plugin == "X"
    assert unresolvable("a", plugin="Y").with_plugin("X").plugin == "Y"
    assert [status.is_rejection for status in (SUCCESS, failure("x"), unschedulable(), Status(Code.PENDING))] == [
        False,
        False,
        True,
        True,
    ]


def test_verdicts_hold_several_reasons_per_node() -> None:
    verdicts = Verdicts(np.array([0, 2, 3], dtype=np.int8), np.array([0, 0b11, 0b10]), ("one", "two"))
    assert [verdicts.status(index, "X").reasons for index in range(3)] == [(), ("one", "two"), ("two",)]
    assert verdicts.status(2, "X").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert reject(np.zeros(3, dtype=np.bool_), Code.UNSCHEDULABLE, "r") is None


@pytest.mark.parametrize(
    ("event", "registration", "expected"),
    [
        (NODE_ADD, HintRegistration(NODE, A.ADD), True),
        (NODE_ADD, HintRegistration(NODE, A.ADD | A.UPDATE_NODE_LABEL), True),
        (NODE_ADD, HintRegistration(NODE, A.UPDATE_NODE_LABEL), False),
        (NODE_ADD, HintRegistration(POD, A.ADD), False),
        (NODE_ADD, HintRegistration("*", A.ALL), True),
        (ASSIGNED_POD_ADD, HintRegistration(POD, A.ADD), True),
        (UNSCHEDULABLE_POD_ADD, HintRegistration(POD, A.ADD), True),
        (ASSIGNED_POD_DELETE, HintRegistration("AssignedPod", A.DELETE), True),
        (NODE_ADD._replace(action=A.UPDATE), HintRegistration(NODE, A.UPDATE_NODE_LABEL), False),
        (NODE_ADD._replace(action=A.UPDATE), HintRegistration(NODE, A.UPDATE), True),
    ],
)
def test_an_event_matches_a_registration_that_covers_it(
    event: Any, registration: HintRegistration, expected: bool
) -> None:
    assert event.matches(registration) is expected


def test_a_heartbeat_is_no_event() -> None:
    assert node_update_events(node("n"), node("n")) == ()
    changed = node_update_events(node("n"), node("n", labels={"a": "b"}, conditions={"Ready": "True"}))
    assert [event.action for event in changed] == [A.UPDATE_NODE_LABEL, A.UPDATE_NODE_CONDITION]


def test_a_pod_update_is_reported_as_specifically_as_possible() -> None:
    old = pod("p", schedulingGates=[{"name": "g"}])
    new = pod("p", labels={"a": "b"}, tolerations=[{"key": "k"}])
    assert [event.action for event in pod_update_events(old, new)] == [
        A.UPDATE_POD_LABEL, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, A.UPDATE_POD_TOLERATION,
    ]  # fmt: skip
    assert [event.action for event in pod_update_events(old, old)] == [A.UPDATE]


class OddNodesOnly:
    """Written node by node, through the adapter."""

    name = "NodeName"

    def __init__(self, args: Any, context: Any) -> None:
        pass

    def filter_node(self, state: CycleState, info: PodInfo, node_info: NodeInfo, pods: Collection[PodInfo]) -> Status:
        number = int(node_info.name[1:])
        if number % 2:
            return SUCCESS
        return unschedulable("even", "divisible by four") if number % 4 == 0 else unresolvable("even")

    def score_node(self, state: CycleState, info: PodInfo, node_info: NodeInfo, pods: Collection[PodInfo]) -> int:
        return int(node_info.name[1:]) + 10 * len(pods)

    def filter(self, *args: Any) -> Verdicts | None:
        return filter_by_node(self, *args)

    def score(self, *args: Any) -> Any:
        return score_by_node(self, *args)


def test_a_plugin_written_node_by_node_runs_through_the_adapter() -> None:
    points = {
        P.QUEUE_SORT: (EnabledPlugin("PrioritySort"),),
        P.FILTER: (EnabledPlugin("NodeName"),),
        P.SCORE: (EnabledPlugin("NodeName", 2),),
    }
    effective = EffectiveProfile("test", points, {}, runner().options)
    profile = ProfileRunner(effective, {**FACTORIES, "NodeName": OddNodesOnly})
    state = cluster(*(node(f"n{index}") for index in range(5)), pods={"n1": [pod("x")]})
    explanation = explain(state.snapshot(NOW), pod("p"), profile)
    assert explanation.best == ("n1",)
    assert explanation.node("n1").total == 22
    assert explanation.node("n4").rejection.reasons == ("even", "divisible by four")
    assert conclude(decide(state.snapshot(NOW), pod("p"), profile, random.Random(1))).node == "n1"


class Recorder:
    """Extends the points after scoring; answers what the test says and notes who was called."""

    def __init__(self, name: str, answers: dict[str, Any], calls: list[str]) -> None:
        self.name, self._answers, self._calls = name, answers, calls

    def _call(self, point: str, default: Any) -> Any:
        self._calls.append(f"{point} {self.name}")
        return self._answers.get(point, default)

    def reserve(self, *args: Any) -> Status:
        return self._call("reserve", SUCCESS)

    def unreserve(self, *args: Any) -> None:
        self._call("unreserve", None)

    def permit(self, *args: Any) -> tuple[Status, float]:
        return self._call("permit", (SUCCESS, 0.0))

    async def pre_bind(self, *args: Any) -> Status:
        return self._call("pre_bind", SUCCESS)

    async def bind(self, *args: Any) -> Status:
        return self._call("bind", SUCCESS)

    async def post_bind(self, *args: Any) -> None:
        self._call("post_bind", None)

    def post_filter(self, *args: Any) -> tuple[None, Status]:
        return None, self._call("post_filter", SUCCESS)


def recorded(**answers: dict[str, Any]) -> tuple[ProfileRunner, list[str]]:
    """A profile of recorders A and B; keywords give each one's answers."""
    calls: list[str] = []
    enabled = (EnabledPlugin("A"), EnabledPlugin("B"))
    late = (P.POST_FILTER, P.RESERVE, P.PERMIT, P.PRE_BIND, P.BIND, P.POST_BIND)
    points = {P.QUEUE_SORT: (EnabledPlugin("PrioritySort"),), **dict.fromkeys(late, enabled)}
    factories = {
        **FACTORIES,
        **{name: lambda args, context, name=name: Recorder(name, answers.get(name, {}), calls) for name in "AB"},
    }
    return ProfileRunner(EffectiveProfile("test", points, {}, runner().options), factories), calls


STATE, POD_INFO = CycleState(), pod("p")


def test_reserve_stops_at_the_first_rejection_and_unreserve_runs_backwards_through_all() -> None:
    profile, calls = recorded(A={"reserve": unschedulable("no")})
    status = profile.run_reserve(STATE, POD_INFO, "n")
    assert (status.plugin, status.message) == ("A", "no")
    profile.run_unreserve(STATE, POD_INFO, "n")
    assert calls == ["reserve A", "unreserve B", "unreserve A"]


def test_permit_gathers_who_holds_the_pod_and_caps_the_time() -> None:
    profile, _ = recorded(A={"permit": (Status(Code.WAIT), 5.0)}, B={"permit": (Status(Code.WAIT), 1e9)})
    outcome = profile.run_permit(STATE, POD_INFO, "n")
    assert (outcome.status.code, outcome.waits) == (Code.WAIT, {"A": 5.0, "B": 900.0})
    profile, _ = recorded(A={"permit": (Status(Code.WAIT), 5.0)}, B={"permit": (unschedulable("no"), 0.0)})
    assert profile.run_permit(STATE, POD_INFO, "n").status.plugin == "B"


async def test_binding_asks_the_next_binder_after_skip() -> None:
    profile, calls = recorded(A={"bind": Status(Code.SKIP)})
    assert (await profile.run_bind(STATE, POD_INFO, "n")).is_success
    assert calls == ["bind A", "bind B"]
    profile, _ = recorded(A={"bind": Status(Code.SKIP)}, B={"bind": Status(Code.SKIP)})
    assert (await profile.run_bind(STATE, POD_INFO, "n")).code is Code.ERROR


async def test_errors_after_scoring_are_worded_as_upstream() -> None:
    profile, calls = recorded(A={"bind": failure("409"), "pre_bind": failure("timeout")})
    assert (await profile.run_bind(STATE, POD_INFO, "n")).message == 'running Bind plugin "A": 409'
    assert (await profile.run_pre_bind(STATE, POD_INFO, "n")).message == 'running PreBind plugin "A": timeout'
    await profile.run_post_bind(STATE, POD_INFO, "n")
    assert calls[-2:] == ["post_bind A", "post_bind B"]


def test_post_filter_gathers_reasons_until_one_succeeds() -> None:
    profile, _ = recorded(
        A={"post_filter": unschedulable("no claims")}, B={"post_filter": unschedulable("preemption: no")}
    )
    _, status = conclude(profile.run_post_filter(STATE, POD_INFO, cluster(node("n")).snapshot(NOW), {}))
    assert status.message == "no claims, preemption: no"
    profile, calls = recorded()
    assert conclude(profile.run_post_filter(STATE, POD_INFO, cluster(node("n")).snapshot(NOW), {}))[1].is_success
    assert calls == ["post_filter A"]


async def test_nothing_is_bound_without_a_handle() -> None:
    status = await runner().run_bind(STATE, POD_INFO, "n")
    assert status.message == 'running Bind plugin "DefaultBinder": nothing is bound in a simulation'


def test_a_profile_that_cannot_be_built_names_the_plugin() -> None:
    points = {P.QUEUE_SORT: (EnabledPlugin("PrioritySort"),), P.FILTER: (EnabledPlugin("ImageLocality"),)}
    effective = EffectiveProfile("test", points, {}, runner().options)
    with pytest.raises(ValueError, match='"ImageLocality" does not extend FilterPlugin plugin: it has no filter'):
        ProfileRunner(effective, FACTORIES)
    with pytest.raises(ValueError, match='initializing plugin "ImageLocality": this scheduler has no such plugin'):
        ProfileRunner(effective, {"PrioritySort": FACTORIES["PrioritySort"]})


class ScoresByNode:
    """A plugin of somebody else, who has misspelled `score_node`."""

    name = "Mine"

    def __init__(self, args: object, context: object) -> None:
        pass

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        return score_by_node(self, state, pod, view, rows)  # type: ignore[arg-type]

    def node_score(self, *_: object) -> int:
        return 1


def test_a_plugin_without_the_method_that_scores_a_node_is_refused_before_the_first_pod() -> None:
    points = {P.QUEUE_SORT: (EnabledPlugin("PrioritySort"),), P.SCORE: (EnabledPlugin("Mine", 1),)}
    effective = EffectiveProfile("test", points, {}, runner().options)
    with pytest.raises(ValueError, match='plugin "Mine": its score calls score_by_node, and it has no score_node'):
        ProfileRunner(effective, {**FACTORIES, "Mine": ScoresByNode})


def test_hints_cover_taints_wherever_node_add_is_registered() -> None:
    registrations = runner().hint_registrations()
    assert set(registrations) >= {"SchedulingGates", "NodeName", "NodeResourcesFit", "NodeAffinity"}
    for name, events in registrations.items():
        nodes = [event for event in events if event.resource == NODE]
        if any(event.actions & A.ADD for event in nodes):
            assert any(event.actions & A.UPDATE_NODE_TAINT for event in nodes), name


def test_messages_of_diagnoses() -> None:
    assert Diagnosis(3).message() == "0/3 nodes are available:"
    blocked = Diagnosis(4, pre_filter=unresolvable('persistentvolumeclaim "nope" not found'))
    assert blocked.message("not found") == '0/4 nodes are available: persistentvolumeclaim "nope" not found. not found'


def test_cycle_state_is_cloned_deep_enough_for_what_if_runs() -> None:
    class Counter:
        def __init__(self, number: int) -> None:
            self.number = number

        def clone(self) -> "Counter":
            return Counter(self.number)

    state = CycleState()
    state.write("x", Counter(1))
    state.skip_filter.add("F")
    twin = state.clone()
    twin.read("x", Counter).number = 2
    twin.skip_filter.clear()
    assert state.read("x", Counter).number == 1
    assert state.skip_filter == {"F"}
    assert state.read("x", int) is None
    assert math.isnan(pod("p").assigned_at)
