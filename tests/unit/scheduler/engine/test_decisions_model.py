"""The history of decisions beside a list of what happened, over random courses of events."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import given, strategies as st
from msgspec.structs import replace

from scheduler.core import Placement, PostFilterOutcome, decide
from scheduler.engine.decisions import DecisionHistory, HistoryLimits
from scheduler.engine.failures import SCHEDULER_ERROR, UNSCHEDULABLE, AttemptFailure
from scheduler.framework import Clocks, MonotonicSeconds, PodInfo, WallSeconds, conclude
from scheduler.state import QueuedPod
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

PROFILE = runner()
SNAPSHOT = cluster(node("n0"), node("n1")).snapshot(NOW)
FITTING = [pod(f"fits-{number}", container("1"), namespace="a", uid=f"fits-{number}") for number in range(2)]
LARGE = [pod(f"large-{number}", container("900"), namespace="b", uid=f"large-{number}") for number in range(2)]
PODS = {info.uid: info for info in (*FITTING, *LARGE)}
PLACEMENTS = {uid: conclude(decide(SNAPSHOT, info, PROFILE, random.Random(1))) for uid, info in PODS.items()}
VICTIMS = tuple(pod(f"victim-{number}", namespace=namespace) for number, namespace in enumerate("abab"))
RECORDS = 5
LIMITS = HistoryLimits(records=RECORDS, bytes=1 << 30, detail_share=0.0)


@dataclass
class Expected:
    """One attempt as a reader sees it."""

    uid: str
    result: str
    node: str | None
    message: str | None
    attempt: int | None = None
    waited: float | None = None
    queue: str | None = None
    victims: int | None = None


class Model:
    """What the history has to show, oldest first."""

    def __init__(self) -> None:
        self.attempts: list[Expected] = []

    def open(self, uid: str) -> Expected | None:
        latest = next((each for each in reversed(self.attempts) if each.uid == uid), None)
        return latest if latest is not None and latest.attempt is None else None

    def add(self, attempt: Expected) -> None:
        self.attempts = [*self.attempts, attempt][-RECORDS:]

    def decided(self, placement: Placement) -> None:
        self.not_tried(placement.pod.uid)
        result = "unschedulable" if placement.node is None else "binding"
        self.add(Expected(placement.pod.uid, result, placement.node, placement.message))

    def not_tried(self, uid: str) -> None:
        former = self.open(uid)
        self.attempts = [each for each in self.attempts if each is not former]

    def failed(self, uid: str, number: int, failure: AttemptFailure) -> None:
        attempt = self.open(uid)
        if attempt is None:
            self.add(attempt := Expected(uid, "", None, None))
        attempt.result = "unschedulable" if failure.reason == UNSCHEDULABLE else "error"
        attempt.attempt, attempt.node, attempt.queue = number, None, "backoff"
        attempt.message = failure.message


def queued(info: PodInfo, attempts: int) -> QueuedPod:
    return QueuedPod(info, WallSeconds(NOW), MonotonicSeconds(90.0), attempts, first_active_at=MonotonicSeconds(90.0))


def shown(item: dict[str, Any]) -> Expected:
    return Expected(
        item["uid"], item["result"], item["node"], item["message"], item["attempt"], item.get("waitedSeconds"),
        item.get("queue"), item.get("victimCount"),
    )  # fmt: skip


STEPS = st.tuples(
    st.sampled_from(("decided", "bound", "failed", "error", "preempted", "not tried")), st.sampled_from(sorted(PODS))
)


@given(st.lists(STEPS, max_size=40))
def test_after_any_course_of_events_it_shows_the_last_attempts(steps: list[tuple[str, str]]) -> None:
    history = DecisionHistory(LIMITS, Clocks(lambda: WallSeconds(NOW), lambda: MonotonicSeconds(100.0)))
    model = Model()
    for number, (step, uid) in enumerate(steps, start=1):
        info, attempt = PODS[uid], model.open(uid)
        if step == "decided":
            history.decided(SNAPSHOT, PLACEMENTS[uid], PROFILE)
            model.decided(PLACEMENTS[uid])
        elif step == "bound":
            history.bound(queued(info, number), MonotonicSeconds(100.0))
            if attempt is not None:
                attempt.result, attempt.attempt, attempt.waited = "scheduled", number, 10.0
        elif step == "preempted":
            history.post_filtered(info, PostFilterOutcome("room", "n0", VICTIMS))
            if attempt is not None:
                attempt.victims = len(VICTIMS)
        elif step == "not tried":
            history.not_tried(uid)
            model.not_tried(uid)
        else:
            failure = AttemptFailure(f"attempt {number}", UNSCHEDULABLE if step == "failed" else SCHEDULER_ERROR)
            history.failed(queued(info, number), failure, "backoff")
            model.failed(uid, number, failure)
    assert [shown(item) for item in msgspec.to_builtins(history.show())["items"]] == list(reversed(model.attempts))
    assert len(history) == len(model.attempts)
    assert history.count_chosen("n0") == sum(attempt.node == "n0" for attempt in model.attempts)
    # What others drove out, or was not tried after all, takes no memory any more.
    others = [replace(PLACEMENTS["fits-0"], pod=pod(f"other-{number}")) for number in range(RECORDS)]
    for placement in others:
        history.decided(SNAPSHOT, placement, PROFILE)
    for placement in others:
        history.not_tried(placement.pod.uid)
    assert (len(history), history.size) == (0, 0)
