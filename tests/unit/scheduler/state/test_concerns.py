"""Changes that concern few of the waiting pods: the queue asks those, and wakes whom it would wake if it asked all."""

from collections.abc import Collection, Iterable

from hypothesis import settings, strategies as st
from hypothesis.stateful import rule

from scheduler.catalog import ActionType
from scheduler.framework import (
    NODE,
    NODE_ADD,
    POD,
    SUCCESS,
    ClusterEvent,
    Concern,
    Hint,
    HintRegistration,
    PodInfo,
    Status,
    unresolvable,
)
from scheduler.state import QueuedPod, SchedulingQueue
from tests.support.faketime import ManualClocks
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import pod
from tests.unit.scheduler.state.twoqueues import TwoQueues

TICKET = "Ticket"
ADDED = ClusterEvent(TICKET, ActionType.ADD, "TicketAdd")
UPDATED = ClusterEvent(TICKET, ActionType.UPDATE, "TicketUpdate")


def waits_for(info: PodInfo) -> Collection[str]:
    return [name for key, name in info.labels.items() if key.startswith("ticket")]


class Tickets:
    """Pods wait at a gate until all tickets exist that their labels name. Objects of an event are names of tickets; an
    old one "used" says that the change helps all who have theirs, "quiet" that it helps none."""

    def __init__(self, clock: ManualClocks, concern: Concern | None) -> None:
        self.existing: set[str] = set()
        self.questions = 0
        tickets = (
            HintRegistration(TICKET, ActionType.ADD | ActionType.UPDATE, self._ticket_changed, concern),
            HintRegistration(POD, ActionType.UPDATE_POD_LABEL, self._pod_changed, concern),
            HintRegistration(NODE, ActionType.ADD),
        )
        fit = (HintRegistration(NODE, ActionType.ADD), HintRegistration(TICKET, ActionType.UPDATE))
        self.queue = SchedulingQueue(
            clocks=clock.clocks,
            sort_key=lambda info, at: info.name,
            pre_enqueue=self._gate,
            hints={"test": {"Tickets": tickets, "Fit": fit}},
        )

    def _gate(self, info: PodInfo) -> Status:
        self.questions += 1
        return SUCCESS if self._has_all(info) else unresolvable("no ticket", plugin="Tickets")

    def _has_all(self, info: PodInfo) -> bool:
        return self.existing.issuperset(waits_for(info))

    def _ticket_changed(self, info: PodInfo, old: object, new: object) -> Hint:
        self.questions += 1
        helps = old == "used" or (old != "quiet" and new in waits_for(info))
        return Hint.QUEUE if helps and self._has_all(info) else Hint.SKIP

    def _pod_changed(self, info: PodInfo, old: object, new: object) -> Hint:
        # Says less than PreEnqueue: nobody is woken by the change of a second label.
        same = isinstance(new, PodInfo) and info.uid == new.uid and len(waits_for(new)) < 2
        return Hint.QUEUE if same and self._has_all(info) else Hint.SKIP


CONCERN = Concern(
    waits_for, lambda old, new: [new] if isinstance(new, str) and new else [], lambda old, new: old == "used"
)


def test_an_objects_event_asks_the_pods_that_wait_for_it() -> None:
    tickets = Tickets(ManualClocks(), CONCERN)
    pods = [pod(f"p{number:03}", labels={"ticket": f"t{number}"}) for number in range(500)]
    for each in pods:
        tickets.queue.add(each)
    assert tickets.queue.counts()["gated"] == len(pods)
    tickets.questions = 0
    for number, each in enumerate(pods):
        tickets.existing.add(f"t{number}")
        tickets.queue.on_event(ADDED, None, f"t{number}")
        assert tickets.queue.queue_of(each.uid) == "active"
    assert tickets.questions <= 3 * len(pods)


def test_a_plugin_that_holds_no_pod_back_is_not_asked_whom_a_change_concerns() -> None:
    questions = []

    def named(old: object, new: object) -> Collection[str]:
        questions.append(new)
        return [str(new)]

    tickets = Tickets(ManualClocks(), Concern(waits_for, named, lambda old, new: False))
    tickets.queue.on_event(ADDED, None, "t1")
    tickets.queue.on_events([(ADDED, None, "t2")])
    assert not questions, "nobody waits"
    unfit = pod("unfit")
    tickets.queue.add(unfit)
    popped = tickets.queue.pop()
    assert popped is not None
    tickets.queue.add_unschedulable(popped, rejectors=frozenset({"Fit"}))
    tickets.queue.on_event(ADDED, None, "t3")
    assert not questions, "the only pod that waits was rejected by another plugin"
    gated = pod("gated", labels={"ticket": "t9"})
    tickets.queue.add(gated)
    tickets.queue.on_event(ADDED, None, "t4")
    assert questions == ["t4"]
    tickets.queue.delete(gated.uid)
    tickets.queue.on_event(ADDED, None, "t5")
    assert questions == ["t4"], "it does not wait any more"


def test_a_list_of_many_objects_that_concern_one_pod_each_wakes_these_pods_only() -> None:
    tickets = Tickets(ManualClocks(), CONCERN)
    pods = [pod(f"p{number:03}", labels={"ticket": f"t{number}"}) for number in range(1000)]
    for each in pods:
        tickets.queue.add(each)
        assert tickets.queue.take(each.uid) is None
    tickets.existing.update(f"t{number}" for number in range(0, 1000, 2))
    tickets.questions = 0
    tickets.queue.on_events([(ADDED, None, f"t{number}") for number in range(1000)])
    assert tickets.queue.counts()["active"] == 500
    assert tickets.questions <= 3 * len(pods)


def test_a_plugin_that_cannot_tell_whom_a_change_concerns_is_asked_about_each_pod() -> None:
    for broken in (
        CONCERN._replace(awaited=lambda info: [str(1 / 0)]),
        CONCERN._replace(named=lambda o, n: [str(1 / 0)]),
    ):
        tickets = Tickets(ManualClocks(), broken)
        for number in range(3):
            tickets.queue.add(pod(f"p{number}", labels={"ticket": f"t{number}"}))
        tickets.existing.add("t1")
        tickets.queue.on_events([(ADDED, None, "t1")])
        assert tickets.queue.counts() == {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 2}


class ConcernMachine(TwoQueues):
    """Two queues, one of which asks everybody: at every moment each pod is in the same place in both."""

    def __init__(self) -> None:
        super().__init__()
        self.worlds = [Tickets(self.clock, concern) for concern in (CONCERN, None)]
        self.pods: dict[str, PodInfo] = {}
        self.flying: dict[str, list[QueuedPod]] = {}

    def names(self) -> Iterable[str]:
        return self.pods

    uids = st.integers(0, 4).map(lambda index: f"p{index}")
    tickets = st.sampled_from("abc")

    @rule(name=uids, first=st.sampled_from(("", "a", "b")), second=st.sampled_from(("", "c")))
    def add_or_update(self, name: str, first: str, second: str) -> None:
        labels = {key: name for key, name in (("ticket1", first), ("ticket2", second)) if name}
        old, new = self.pods.get(name), pod(name, labels=labels)
        if name in self.flying:
            return
        for world in self.worlds:
            if old is None:
                world.queue.add(new)
            else:
                world.queue.update(old, new)
        self.pods[name] = new

    @rule(name=tickets, event=st.sampled_from((ADDED, UPDATED)), old=st.sampled_from((None, "used", "quiet")))
    def ticket(self, name: str, event: ClusterEvent, old: str | None) -> None:
        for world in self.worlds:
            world.existing.add(name)
            world.queue.on_event(event, old, name)

    @rule(names=st.lists(tickets, max_size=3))
    def listed(self, names: list[str]) -> None:
        for world in self.worlds:
            world.existing = set(names)
            world.queue.on_events([(ADDED, None, name) for name in names])

    @rule()
    def node(self) -> None:
        for world in self.worlds:
            world.queue.on_event(NODE_ADD)

    @rule()
    def pop(self) -> None:
        popped = [world.queue.pop() for world in self.worlds]
        known = [each for each in popped if each is not None]
        assert len({each.pod.name for each in known}) == len(known) // 2
        if known:
            self.flying[known[0].pod.name] = known

    @rule(data=st.data(), rejectors=st.sampled_from([(), ("Fit",), ("Tickets",), ("Tickets", "Fit")]))
    def reject(self, data: st.DataObject, rejectors: tuple[str, ...]) -> None:
        if self.flying:
            popped = self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))
            for world, queued in zip(self.worlds, popped, strict=True):
                world.queue.add_unschedulable(queued, rejectors=rejectors)

    @rule(name=uids)
    def delete(self, name: str) -> None:
        if name not in self.flying and self.pods.pop(name, None) is not None:
            for world in self.worlds:
                world.queue.delete(f"uid-{name}")


ConcernMachine.TestCase.settings = settings(max_examples=tries(60), stateful_step_count=40, deadline=None)
TestConcernMachine = ConcernMachine.TestCase
