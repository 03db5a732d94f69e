"""The scheduling queue: order, back-off, waking by events, gates. Time is a number that the test moves."""

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.catalog import ActionType
from scheduler.framework import (
    ASSIGNED_POD_DELETE,
    NODE,
    NODE_ADD,
    POD,
    SUCCESS,
    ClusterEvent,
    Hint,
    HintRegistration,
    PodInfo,
    Status,
    unresolvable,
)
from scheduler.state import QueuedPod, Requeue, SchedulingQueue
from tests.support.faketime import ManualClocks
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import pod

HINTS = {
    "test": {
        "Fit": (HintRegistration(NODE, ActionType.ADD), HintRegistration(POD, ActionType.DELETE)),
        "Picky": (
            HintRegistration(NODE, ActionType.ADD, lambda pod, old, new: Hint.QUEUE if new == "good" else Hint.SKIP),
        ),
        "Broken": (HintRegistration(NODE, ActionType.ADD, lambda pod, old, new: Hint[str(1 / 0)]),),
        "SchedulingGates": (HintRegistration(POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),),
    }
}


def gate(info: PodInfo) -> Status:
    return unresolvable("gated", plugin="SchedulingGates") if info.spec.gates else SUCCESS


@pytest.fixture
def clock() -> ManualClocks:
    return ManualClocks()


def make(clock: ManualClocks, **options: object) -> SchedulingQueue:
    return SchedulingQueue(
        clocks=clock.clocks, sort_key=lambda info, at: (-info.priority, at), pre_enqueue=gate, hints=HINTS, **options
    )


def names(queue: SchedulingQueue) -> list[str]:
    result = []
    while (queued := queue.pop()) is not None:
        result.append(queued.pod.name)
    return result


def failed(queue: SchedulingQueue, name: str = "p", *rejectors: str, pending: tuple[str, ...] = ()) -> QueuedPod:
    queue.add(pod(name))
    queued = queue.pop()
    queue.add_unschedulable(queued, rejectors=rejectors, pending=pending)
    return queued


def test_priority_goes_first_then_who_waits_longest(clock: ManualClocks) -> None:
    queue = make(clock)
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        clock.now += 1
        queue.add(pod(name, priority=priority))
    assert names(queue) == ["b", "d", "a", "c"]


def places(queue: SchedulingQueue, most: int = 10, wanted: str = "") -> list[tuple[int, str]]:
    first = queue.first_active(most, lambda queued: wanted in queued.pod.name)
    return [(place, queued.pod.name) for place, queued in first]


def test_pods_know_their_places_among_all_that_are_to_be_tried(clock: ManualClocks) -> None:
    queue = make(clock)
    for index, priority in enumerate((1, 5, 3, 3)):
        clock.now += 1
        queue.add(pod(f"p{index}", priority=priority))
    assert places(queue) == [(1, "p1"), (2, "p2"), (3, "p3"), (4, "p0")]
    assert places(queue, most=2) == [(1, "p1"), (2, "p2")]
    assert places(queue, wanted="p3") == [(3, "p3")]
    queue.delete("uid-p1")
    assert places(queue, wanted="p0") == [(3, "p0")]
    assert places(queue, wanted="other") == []


def test_a_rejected_pod_knows_which_events_wake_it(clock: ManualClocks) -> None:
    queued = failed(make(clock), "p", "Fit", "SchedulingGates")
    assert make(clock).events_that_wake(queued) == {
        "Fit": ["Node/Add", "Pod/Delete"],
        "SchedulingGates": ["Pod/UpdatePodSchedulingGatesEliminated"],
    }
    whole = HintRegistration(NODE, ActionType.ADD | ActionType.UPDATE)
    assert (whole.event_names(), HintRegistration(NODE, ActionType.ALL).event_names()) == (
        ["Node/Update", "Node/Add"],
        ["Node/All"],
    )


def test_equal_pods_keep_their_order_of_arrival(clock: ManualClocks) -> None:
    queue = make(clock)
    for index in range(20):
        queue.add(pod(f"p{index}"))
    assert names(queue) == [f"p{index}" for index in range(20)]


def test_an_unschedulable_pod_waits_for_an_event_its_rejector_registered(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "p", "Fit")
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 0}
    assert queue.on_event(ClusterEvent(NODE, ActionType.UPDATE_NODE_LABEL)) == 0
    assert queue.on_event(NODE_ADD) == 1
    assert queue.queue_of("uid-p") == "backoff"


def test_a_pod_without_back_off_left_becomes_active_at_once(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "p", "Fit")
    clock.now += 2.5
    queue.on_event(NODE_ADD)
    assert queue.queue_of("uid-p") == "active"


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (50, 10)], ids=lambda value: str(value)
)
def test_back_off_doubles_up_to_the_maximum(clock: ManualClocks, attempts: int, seconds: int) -> None:
    queue = make(clock)
    queue.add(pod("p"))
    for _ in range(attempts):
        queued = queue.pop()
        queue.add_unschedulable(queued, rejectors=["Fit"])
        queue.activate(["uid-p"])
    queue.pop()
    queue.add_unschedulable(queued, rejectors=())
    queued.consecutive_errors = 0
    assert queue.backoff_until(queued) == 1000 + seconds


@pytest.mark.parametrize(("size", "seconds"), [(1, 10), (2, 14), (100, 100)])
def test_the_longest_back_off_grows_with_the_root_of_the_pods_that_are_tried_together(
    clock: ManualClocks, size: int, seconds: int
) -> None:
    queue = make(clock)
    queue.add(pod("p"))
    for _ in range(20):
        queued = queue.pop()
        queued.entity_size = size
        assert queue.add_unschedulable(queued, rejectors=["Fit"], requeue=Requeue.AFTER_BACKOFF) == "backoff"
        queue.activate(["uid-p"])
    queue.pop()
    queue.add_unschedulable(queued, rejectors=["Fit"], requeue=Requeue.AFTER_BACKOFF)
    assert queue.backoff_until(queued) == 1000 + seconds
    assert queue.pop() is None, "it is not tried before, though there is nothing else to do"
    clock.now += seconds + 1
    queue.flush()
    assert names(queue) == ["p"]


def test_what_is_left_over_is_tried_again_at_once_in_its_old_place(clock: ManualClocks) -> None:
    queue = make(clock)
    queue.add(pod("left"))
    clock.now += 1
    queue.add(pod("later"))
    queued = queue.pop()
    clock.now += 1
    assert queue.add_unschedulable(queued, rejectors=["Fit"], requeue=Requeue.IMMEDIATELY) == "active"
    assert names(queue) == ["left", "later"]


def test_a_popped_pod_that_may_not_be_tried_any_more_is_taken_back(clock: ManualClocks) -> None:
    queue = make(clock)
    queue.add(pod("p"))
    queued = queue.pop()
    assert not queue.takes_back(queued)
    queued.pod = pod("p", schedulingGates=[{"name": "later"}])
    assert queue.takes_back(queued)
    assert (queue.queue_of("uid-p"), queued.attempts) == ("gated", 0)


def test_nothing_else_to_do_pops_a_pod_that_backs_off_but_not_one_after_an_error(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "error")
    failed(queue, "rejected", "Fit")
    queue.on_event(NODE_ADD)
    assert names(queue) == ["rejected"]
    assert queue.queue_of("uid-error") == "backoff"
    clock.now += 2
    assert queue.flush() == 1
    assert names(queue) == ["error"]


def test_popping_early_can_be_switched_off(clock: ManualClocks) -> None:
    queue = make(clock, pop_from_backoff=False)
    failed(queue, "rejected", "Fit")
    queue.on_event(NODE_ADD)
    assert queue.pop() is None


def test_backoff_ends_with_the_whole_second_after_it(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "error")
    clock.now = 1001.99
    assert queue.flush() == 0
    clock.now = 1002
    assert queue.flush() == 1


def test_pods_unschedulable_for_five_minutes_are_tried_again(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "p", "Fit")
    clock.now = 1300
    assert queue.flush() == 0
    clock.now = 1300.5
    assert queue.flush() == 1
    assert queue.queue_of("uid-p") == "active"


def test_a_gate_that_stays_closed_is_asked_again_twice_a_minute(clock: ManualClocks) -> None:
    """Thousands that wait for their victims' end for more than five minutes took a quarter of the loop's time."""
    question_times: list[float] = []

    def closed(info: PodInfo) -> Status:
        question_times.append(clock.now)
        return unresolvable("gated", plugin="SchedulingGates")

    queue = SchedulingQueue(clocks=clock.clocks, sort_key=lambda info, at: at, pre_enqueue=closed, hints=HINTS)
    queue.add(pod("p"))
    question_times.clear()
    for _ in range(400):
        clock.now += 1
        queue.flush()
    assert queue.queue_of("uid-p") == "gated"
    assert question_times == [1301, 1331, 1361, 1391]


WALL_CLOCK_SET = pytest.mark.parametrize("jump", [-3600, 3600], ids=["an hour back", "an hour ahead"])


@WALL_CLOCK_SET
@pytest.mark.parametrize("rejectors", [("Fit",), ()], ids=["rejected", "after an error"])
def test_backoff_does_not_depend_on_the_wall_clock(
    clock: ManualClocks, rejectors: tuple[str, ...], jump: float
) -> None:
    queue = make(clock)
    failed(queue, "p", *rejectors)
    queue.on_event(NODE_ADD)
    clock.wall_offset = jump
    assert queue.flush() == 0
    assert queue.queue_of("uid-p") == "backoff"
    clock.now += 2
    assert queue.flush() == 1
    assert queue.queue_of("uid-p") == "active"


@WALL_CLOCK_SET
def test_the_timeout_of_unschedulable_pods_does_not_depend_on_the_wall_clock(clock: ManualClocks, jump: float) -> None:
    queue = make(clock)
    failed(queue, "p", "Fit")
    clock.wall_offset = jump
    clock.now += 300
    assert queue.flush() == 0
    clock.now += 0.5
    assert queue.flush() == 1
    assert queue.queue_of("uid-p") == "active"


def test_the_order_is_that_of_the_wall_clock_which_gives_the_creation_times_of_groups_too(clock: ManualClocks) -> None:
    queue = make(clock)
    queue.add(pod("before"))
    clock.now, clock.wall_offset = clock.now + 10, -3600
    queue.add(pod("after"))
    assert names(queue) == ["after", "before"]


def test_a_hint_decides_and_a_broken_one_wakes(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "picky", "Picky")
    failed(queue, "broken", "Broken")
    queue.on_event(NODE_ADD, None, "bad")
    assert queue.queue_of("uid-picky") == "unschedulable"
    assert queue.queue_of("uid-broken") == "backoff"
    queue.on_event(NODE_ADD, None, "good")
    assert queue.queue_of("uid-picky") == "backoff"


def test_a_list_of_few_objects_wakes_whom_the_hints_say(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "picky", "Picky")
    queue.on_events([(NODE_ADD, None, "bad")] * 3)
    assert queue.queue_of("uid-picky") == "unschedulable"
    queue.on_events([(NODE_ADD, None, "bad"), (NODE_ADD, None, "good")])
    assert queue.queue_of("uid-picky") == "backoff"


def test_a_list_of_many_objects_asks_no_pod_about_each(clock: ManualClocks) -> None:
    questions = []

    def hint(pod: PodInfo, old: object, new: object) -> Hint:
        questions.append(new)
        return Hint.SKIP

    def pre_enqueue(info: PodInfo) -> Status:
        questions.append(info)
        return SUCCESS if info.name in ready else unresolvable("waits", plugin="Claims")

    ready: set[str] = set()
    hints = {"test": {"Claims": (HintRegistration(NODE, ActionType.ADD, hint),)}}
    queue = SchedulingQueue(clocks=clock.clocks, sort_key=lambda info, at: at, pre_enqueue=pre_enqueue, hints=hints)
    pods = [pod(f"p{number}") for number in range(1000)]
    for each in pods:
        queue.add(each)
    ready.update(each.name for each in pods)
    ready.remove("p7")
    questions.clear()
    queue.on_events([(NODE_ADD, None, number) for number in range(1000)])
    assert len(questions) <= 3 * len(pods)
    assert queue.queue_of("uid-p7") == "gated"
    assert queue.counts()["gated"] == 1
    assert len(queue) == 1000


def test_an_event_wakes_the_pods_of_the_profiles_whose_plugins_registered_for_it(clock: ManualClocks) -> None:
    hints = {
        "test": {"Fit": (HintRegistration(NODE, ActionType.ADD),)},
        "other": {"Fit": (HintRegistration(POD, ActionType.DELETE),)},
    }
    queue = SchedulingQueue(clocks=clock.clocks, sort_key=lambda info, at: at, hints=hints)
    for round_number in range(2):
        for scheduler in hints:
            queue.add(pod(f"{scheduler}-{round_number}", schedulerName=scheduler))
            queued = queue.pop()
            assert queued is not None
            queue.add_unschedulable(queued, rejectors=["Fit"])
        clock.now += 100
        assert queue.on_event(NODE_ADD) == 1
        assert names(queue) == [f"test-{round_number}"]
        assert queue.on_event(ClusterEvent(NODE, ActionType.DELETE)) == 0
        assert queue.on_event(ASSIGNED_POD_DELETE) == 1
        assert names(queue) == [f"other-{round_number}"]


def test_a_pending_rejection_wakes_without_back_off(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "p", "Fit", pending=("Fit",))
    queue.on_event(NODE_ADD)
    assert queue.queue_of("uid-p") == "active"


def test_an_event_while_in_flight_is_not_missed(clock: ManualClocks) -> None:
    queue = make(clock)
    queue.add(pod("p"))
    queued = queue.pop()
    queue.on_event(ASSIGNED_POD_DELETE, pod("other"), None)
    assert queue.add_unschedulable(queued, rejectors=["Fit"]) == "backoff"
    assert queue.in_flight_events == 0


def test_an_event_before_the_flight_does_not_count(clock: ManualClocks) -> None:
    queue = make(clock)
    queue.add(pod("a"))
    queue.add(pod("b"))
    first = queue.pop()
    queue.on_event(NODE_ADD)
    second = queue.pop()
    assert queue.add_unschedulable(second, rejectors=["Fit"]) == "unschedulable"
    assert queue.add_unschedulable(first, rejectors=["Fit"]) == "backoff"


def test_gated_pods_wait_for_their_gates_only(clock: ManualClocks) -> None:
    queue = make(clock)
    gated = pod("p", schedulingGates=[{"name": "g"}], version="1")
    assert queue.add(gated) == "gated"
    assert queue.counts()["gated"] == 1
    queue.on_event(NODE_ADD)
    assert queue.queue_of("uid-p") == "gated"
    assert queue.update(gated, pod("p", version="2")) == "active"
    assert queue.pop().initial_attempt_at == 1000


def test_gates_put_on_while_waiting_are_seen_when_the_pod_wakes(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "p", "Fit")
    queue.update(pod("p"), pod("p", schedulingGates=[{"name": "g"}], version="2"))
    queue.on_event(NODE_ADD)
    assert queue.queue_of("uid-p") == "gated"


def test_activate_overrides_back_off(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "p", "Fit")
    failed(queue, "error")
    assert queue.activate(["uid-p", "uid-error", "uid-unknown"]) == 2
    assert queue.counts()["active"] == 2


def test_activate_in_flight_brings_the_pod_straight_back(clock: ManualClocks) -> None:
    queue = make(clock)
    queue.add(pod("p"))
    queue.add(pod("q"))
    mine, other = queue.pop(), queue.pop()
    queue.activate(["uid-p"])
    assert queue.add_unschedulable(mine, rejectors=["Fit"]) == "backoff"
    assert queue.add_unschedulable(other, rejectors=["Fit"]) == "unschedulable"


def test_the_same_version_again_changes_nothing(clock: ManualClocks) -> None:
    queue = make(clock)
    old = pod("p", version="7")
    queue.add(old)
    newer = pod("p", version="7", priority=9)
    queue.update(old, newer)
    assert queue.pop().pod.priority == 0


def test_a_changed_pod_takes_its_new_place(clock: ManualClocks) -> None:
    queue = make(clock)
    queue.add(pod("a", version="1"))
    queue.add(pod("b", version="1"))
    queue.update(pod("b", version="1"), pod("b", version="2", priority=3))
    assert names(queue) == ["b", "a"]


def test_a_deleted_pod_is_gone_from_every_queue(clock: ManualClocks) -> None:
    queue = make(clock)
    failed(queue, "u", "Fit")
    failed(queue, "e")
    queue.add(pod("a"))
    assert [queue.delete(f"uid-{name}") for name in "ueax"] == [True, True, True, False]
    assert len(queue) == 0
    assert queue.pop() is None


def test_errors_count_apart_from_rejections(clock: ManualClocks) -> None:
    queue = make(clock)
    queued = failed(queue, "p")
    clock.now += 2
    queue.flush()
    queue.pop()
    queue.add_unschedulable(queued)
    assert (queued.consecutive_errors, queued.unschedulable_count) == (2, 0)
    clock.now += 4
    queue.flush()
    queue.pop()
    queue.add_unschedulable(queued, rejectors=["Fit"])
    assert (queued.consecutive_errors, queued.unschedulable_count) == (0, 1)


class QueueMachine(RuleBasedStateMachine):
    """Random use: every pod is in exactly one place, none is lost, none is handed out twice."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClocks()
        self.queue = make(self.clock)
        self.alive: set[str] = set()
        self.flying: dict[str, QueuedPod] = {}

    uids = st.integers(0, 4).map(lambda index: f"p{index}")

    @rule(name=uids, gated=st.booleans(), priority=st.integers(0, 2))
    def add(self, name: str, gated: bool, priority: int) -> None:
        gates = {"schedulingGates": [{"name": "g"}]} if gated else {}
        self.queue.add(pod(name, priority=priority, **gates))
        self.alive.add(name)

    @rule(name=uids)
    def delete(self, name: str) -> None:
        self.queue.delete(f"uid-{name}")
        if name not in self.flying:
            self.alive.discard(name)

    @rule()
    def pop(self) -> None:
        before = self.queue.counts()
        queued = self.queue.pop()
        if queued is None:
            assert before["active"] == 0
            return
        assert queued.pod.name not in self.flying
        self.flying[queued.pod.name] = queued

    @rule(data=st.data(), rejectors=st.sampled_from([(), ("Fit",), ("Picky", "Fit")]))
    def return_unschedulable(self, data: st.DataObject, rejectors: tuple[str, ...]) -> None:
        if self.flying:
            name = data.draw(st.sampled_from(sorted(self.flying)))
            self.queue.add_unschedulable(self.flying.pop(name), rejectors=rejectors)

    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        if self.flying:
            name = data.draw(st.sampled_from(sorted(self.flying)))
            del self.flying[name]
            self.queue.done(f"uid-{name}")
            self.alive.discard(name)

    @rule(event=st.sampled_from([NODE_ADD, ASSIGNED_POD_DELETE]))
    def event(self, event: ClusterEvent) -> None:
        self.queue.on_event(event)

    @rule(name=uids)
    def activate(self, name: str) -> None:
        self.queue.activate([f"uid-{name}"])

    @rule(seconds=st.sampled_from([0.3, 1.0, 5.0, 301.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.queue.flush()

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        waiting = sorted(queued.pod.name for queued in self.queue.pending())
        assert waiting == sorted(self.alive - self.flying.keys())
        assert len(self.queue) == sum(self.queue.counts().values()) == len(waiting)
        if not self.flying:
            assert self.queue.in_flight_events == 0


QueueMachine.TestCase.settings = settings(max_examples=tries(60), stateful_step_count=40, deadline=None)
TestQueueMachine = QueueMachine.TestCase


def test_pods_whose_keys_changed_take_their_new_places(clock: ManualClocks) -> None:
    """Whatever lies where in the heap: the order is that of the keys as they are now."""
    weights = {f"p{number}": number for number in range(20)}
    queue = SchedulingQueue(clocks=clock.clocks, sort_key=lambda info, at: weights[info.name], hints=HINTS)
    for name in weights:
        queue.add(pod(name))
    for number in range(0, 20, 2):
        weights[f"p{number}"] = 100 + number
    queue.reorder([f"uid-p{number}" for number in range(0, 20, 2)])
    assert names(queue) == [f"p{number}" for number in (*range(1, 20, 2), *range(0, 20, 2))]


def test_an_event_may_change_the_order(clock: ManualClocks) -> None:
    late = {"a"}
    members = {"a": pod("a"), "b": pod("b")}
    queue = SchedulingQueue(
        clocks=clock.clocks,
        sort_key=lambda info, at: info.name in late,
        hints=HINTS,
        reordered_by=lambda event, old, new: members.values(),
    )
    for member in members.values():
        queue.add(member)
    late.clear()
    late.add("b")
    queue.on_event(NODE_ADD)
    assert names(queue) == ["a", "b"]


def test_a_pod_that_backs_off_is_put_in_order_as_well(clock: ManualClocks) -> None:
    first = {"a": 0, "b": 1}
    queue = SchedulingQueue(clocks=clock.clocks, sort_key=lambda info, at: first[info.name], hints=HINTS)
    for name in first:
        queue.add(pod(name))
    for queued in [queue.pop(), queue.pop()]:
        assert queued is not None
        queue.add_unschedulable(queued, rejectors={"Fit"})
    queue.on_event(NODE_ADD)
    assert queue.counts()["backoff"] == 2
    first["a"] = 2
    queue.reorder(["uid-a"])
    assert names(queue) == ["b", "a"]


def test_the_time_of_the_first_attempt_may_give_the_order(clock: ManualClocks) -> None:
    queue = SchedulingQueue(clocks=clock.clocks, sort_key=lambda info, at: at, hints=HINTS, by_first_attempt=True)
    queue.add(pod("old"))
    clock.now += 5
    queue.add(pod("new"))
    queued = queue.pop()
    assert queued is not None
    clock.now += 5
    queue.add_unschedulable(queued, rejectors={"Fit"})
    clock.now += 5
    queue.on_event(NODE_ADD)
    assert names(queue) == ["old", "new"]


@pytest.mark.parametrize("pool", ["active", "backoff", "unschedulable"])
def test_a_pod_may_be_taken_out_of_its_turn(clock: ManualClocks, pool: str) -> None:
    queue = make(clock)
    queue.add(pod("p"))
    if pool != "active":
        queued = queue.pop()
        assert queued is not None
        queue.add_unschedulable(queued, rejectors={"Fit"})
        if pool == "backoff":
            queue.on_event(NODE_ADD)
    assert queue.queue_of("uid-p") == pool
    queued = queue.take("uid-p")
    assert queued is not None
    assert queued.attempts == (1 if pool == "active" else 2)
    assert queue.queue_of("uid-p") == "in-flight"
    # What happens meanwhile is not lost.
    queue.on_event(NODE_ADD)
    assert queue.add_unschedulable(queued, rejectors={"Fit"}) != "unschedulable"


def test_gated_unknown_and_tried_pods_cannot_be_taken(clock: ManualClocks) -> None:
    queue = make(clock)
    queue.add(pod("gated", schedulingGates=[{"name": "g"}]))
    queue.add(pod("tried"))
    assert queue.pop() is not None
    assert [queue.take(f"uid-{name}") for name in ("gated", "unknown", "tried")] == [None, None, None]
    assert queue.queue_of("uid-gated") == "gated"


def test_an_event_about_a_pod_may_leave_it_out(clock: ManualClocks) -> None:
    queue = make(clock)
    for name in ("a", "b"):
        queue.add(pod(name))
    for queued in [queue.pop(), queue.pop()]:
        assert queued is not None
        queue.add_unschedulable(queued, rejectors={"Fit"})
    assert queue.on_event(ASSIGNED_POD_DELETE, old=pod("a"), except_uid="uid-a") == 1
    assert queue.queue_of("uid-a") == "unschedulable"
