"""What hints may look through: a pod that lists thousands of things is asked about few events, and others about all."""

from typing import Any

from scheduler.catalog import ActionType
from scheduler.framework import POD, ClusterEvent, Hint, HintRegistration, PodInfo
from scheduler.state import SchedulingQueue
from scheduler.state.queued import QueueObserver
from tests.support.faketime import ManualClocks
from tests.unit.scheduler.core.builders import container, pod

GONE = ClusterEvent(POD, ActionType.DELETE, "AssignedPodDelete")


class Unasked:
    """Counts the questions that were not asked."""

    def __init__(self) -> None:
        self.number = 0

    def entered(self, queue: str, event: str) -> None:
        pass

    def times_hint(self) -> bool:
        return False

    def hinted(self, plugin: str, event: str, hint: Hint | None, seconds: float) -> None:
        pass

    def unasked(self, event: str) -> None:
        assert event == "AssignedPodDelete"
        self.number += 1

    def now(self) -> float:
        return 0.0


class Waiting:
    """A queue with rejected pods, whose hint never says that an event helps."""

    def __init__(self, *pods: PodInfo) -> None:
        self.asked: list[str] = []
        self.observer = Unasked()
        observer: QueueObserver = self.observer
        hints = {"test": {"Fit": (HintRegistration(POD, ActionType.DELETE, self._hint),)}}
        clocks = ManualClocks()
        self.queue = SchedulingQueue(clocks=clocks.clocks, sort_key=lambda info, at: at, hints=hints, observer=observer)
        for each in pods:
            self.queue.add(each)
        while (queued := self.queue.pop()) is not None:
            self.queue.add_unschedulable(queued, rejectors=["Fit"])

    def _hint(self, info: PodInfo, old: Any, new: Any) -> Hint:
        self.asked.append(info.name)
        return Hint.SKIP


def listing(name: str, number: int) -> PodInfo:
    return pod(name, container("1m"), tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(number)])


def test_pods_that_list_few_things_are_asked_about_every_event() -> None:
    waiting = Waiting(pod("small"))
    for _ in range(500):
        waiting.queue.on_event(GONE, old=listing("gone", 200))
    assert len(waiting.asked) == 500
    assert waiting.observer.number == 0


def test_a_pod_that_lists_much_is_asked_about_as_many_events_as_there_is_credit_for() -> None:
    waiting = Waiting(listing("large", 1_000), pod("small"))
    for _ in range(500):
        waiting.queue.on_event(GONE, old=pod("gone"))
    questions = waiting.asked.count("large")
    # 20,000 things at once, and 100 more with each event.
    assert 65 <= questions <= 72
    assert waiting.observer.number == 500 - questions
    assert waiting.asked.count("small") == 500
    assert waiting.queue.queue_of("uid-large") == waiting.queue.queue_of("uid-small") == "unschedulable"


def test_an_ordinary_pod_is_woken_unasked_where_the_pod_that_went_lists_too_much() -> None:
    waiting = Waiting(pod("small"), listing("large", 300))
    waiting.queue.on_event(GONE, old=listing("gone", 30_000))
    assert waiting.asked == ["large"] or not waiting.asked
    assert waiting.queue.queue_of("uid-small") in ("active", "backoff")
    assert waiting.queue.queue_of("uid-large") == "unschedulable"
