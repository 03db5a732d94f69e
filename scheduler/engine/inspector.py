"""Answers to those who ask about decisions: pods, the queue, nodes. `decisions` remembers; here it is looked up, and
what waits is looked at again.

Answering takes time from the scheduling loop, so it has an allowance, of which no namespace's askers get more than a
part: a tenant that asks without end slows nobody's pods down.
"""

from __future__ import annotations

import heapq
import time
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from scheduler.core import detail_of, explain, judge_node, without_own_use
from scheduler.engine.allowance import FairAllowance
from scheduler.engine.attempts import AttemptPipeline
from scheduler.engine.decisionrecords import API_VERSION
from scheduler.engine.decisions import BEST_NODES, DecisionHistory
from scheduler.engine.nodecheck import node_facts
from scheduler.engine.shadows import Shadows
from scheduler.framework import Clocks, MonotonicSeconds, PodInfo
from scheduler.kube.primitives import format_time
from scheduler.observe import (
    ChosenQuestion,
    NodeQuestion,
    PodsQuestion,
    Question,
    QueueQuestion,
    ShadowQuestion,
    UnansweredError,
)
from scheduler.state import QueuedPod, SchedulingQueue

ANSWER_SHARE: Final = 0.05
"""Of one processor's time, for answers."""
ANSWER_BURST: Final = 2.0
"""Seconds for answers that a calm period may save up."""
_EVERYBODY: Final = ""
"""The asker of questions about all namespaces, and about nodes."""
_MOST_MESSAGE: Final = 2000
_QUEUES: Final = ("active", "backoff", "unschedulable", "gated")
_encode = msgspec.json.Encoder().encode


class Inspector:
    """Answers questions. All methods run on the scheduling loop.

    Args:
        history: what is remembered.
        queue: says what waits.
        attempts: the steps of an attempt, by which a pod is looked at again.
        clocks: of the process.
        shadows: None where no profile has one.
    """

    def __init__(
        self,
        history: DecisionHistory,
        queue: SchedulingQueue,
        attempts: AttemptPipeline,
        clocks: Clocks,
        shadows: Shadows | None = None,
    ) -> None:
        self._history = history
        self._queue = queue
        self._attempts = attempts
        self._clocks = clocks
        self._shadows = shadows
        self._allowance = FairAllowance(ANSWER_SHARE, ANSWER_BURST, clocks.monotonic)

    def answer(self, question: Question) -> dict[str, Any]:
        """Return the answer, JSON-ready.

        Raises:
            UnansweredError: too much was asked lately, or there is no such node.
        """
        asker = _EVERYBODY
        if isinstance(question, PodsQuestion | QueueQuestion | ShadowQuestion):
            asker = question.namespace or _EVERYBODY
        if not self._allowance.available(asker):
            raise UnansweredError(429, "too much was asked lately; try again in some seconds")
        began = time.perf_counter()
        try:
            match question:
                case PodsQuestion():
                    return self._pods(question)
                case QueueQuestion():
                    return self._waiting_pods(question)
                case ShadowQuestion():
                    return self._shadow(question)
                case NodeQuestion():
                    return self._node(question.node)
                case ChosenQuestion():
                    return self._history.show(node=question.node, most=question.most)
        finally:
            self._allowance.spend(asker, time.perf_counter() - began)

    # Pods -----------------------------------------------------------------------------------------------------------

    def _pods(self, question: PodsQuestion) -> dict[str, Any]:
        namespace, name = question.namespace, question.pod
        shown = self._history.show(namespace=namespace, pod=name, most=question.most)
        shown["schedulerNames"] = sorted(self._attempts.runners)
        shown["history"] = self._history.coverage()
        if namespace is None or name is None:
            return shown
        queued = self._waiting_named(namespace, name)
        shown["waiting"] = None if queued is None else self._waiting(queued)
        if question.node is not None:
            shown["whyNot"] = self._why_not(namespace, name, queued, question.node)
        return shown

    def _waiting_named(self, namespace: str, name: str) -> QueuedPod | None:
        uid = self._history.uid_of(namespace, name)
        queued = self._queue.get(uid) if uid is not None else None
        if queued is not None:
            return queued
        # Gated, not tried yet, or its decisions are forgotten.
        named = (queued for queued in self._queue.pending() if queued.pod.name == name)
        return next((queued for queued in named if queued.pod.namespace == namespace), None)

    def _waiting(self, queued: QueuedPod) -> dict[str, Any]:
        """Where a pod waits, and what would have it tried again."""
        shown = self._place_in_queue(queued)
        del shown["pod"], shown["uid"], shown["schedulerName"]
        shown["wokenBy"] = self._queue.events_that_wake(queued)
        shown["now"] = msgspec.Raw(self._look_at(queued.pod))
        if shown["queue"] == "active":
            shown["podsAhead"] = self._queue.first_active(1, lambda other: other is queued)[0][0] - 1
        return shown

    def _look_at(self, pod: PodInfo) -> bytes:
        snapshot, runner = self._attempts.snapshot(), self._attempts.runner_of(pod)
        return _encode(detail_of(explain(snapshot, pod, runner), snapshot, runner, None, BEST_NODES))

    def _why_not(self, namespace: str, name: str, queued: QueuedPod | None, node: str) -> dict[str, Any]:
        """What every plugin says of a pod on a node as it is now."""
        snapshot = self._attempts.snapshot()
        shown: dict[str, Any] = {"node": node, "placedOn": None, "problem": None, "verdict": None}
        pod = queued.pod if queued is not None else self._placed(namespace, name)
        if pod is None:
            shown["problem"] = "the pod neither waits nor has a node, so nothing is judged"
        elif pod.scheduler_name not in self._attempts.runners:
            shown["problem"] = "the pod belongs to another scheduler"
        elif snapshot.row(node) < 0:
            shown["problem"] = "no node has this name"
        else:
            runner, placed_on = self._attempts.runner_of(pod), pod.node_name or None
            view, waiting = without_own_use(snapshot, pod) if placed_on else (snapshot, pod)
            shown["placedOn"] = placed_on
            shown["verdict"] = msgspec.Raw(_encode(judge_node(view, waiting, runner, node, placed_on)))
        return shown

    def _placed(self, namespace: str, name: str) -> PodInfo | None:
        state = self._attempts.state
        uid = self._history.uid_of(namespace, name)
        pod = state.pod(uid) if uid is not None else None
        if pod is not None:
            return pod
        named = (pod for pod in state.pods() if pod.name == name)
        return next((pod for pod in named if pod.namespace == namespace), None)

    # The queue ------------------------------------------------------------------------------------------------------

    def _waiting_pods(self, question: QueueQuestion) -> dict[str, Any]:
        namespace, most = question.namespace, question.most
        pools: dict[str, list[QueuedPod]] = {name: [] for name in _QUEUES}
        for queued in self._queue.pending():
            if namespace is None or queued.pod.namespace == namespace:
                pools[self._queue.queue_of(queued.pod.uid) or "active"].append(queued)
        counts = self._queue.counts()
        active = self._queue.first_active(most, lambda queued: namespace is None or queued.pod.namespace == namespace)
        queues = []
        for name in _QUEUES:
            if name == "active":
                items = [{"position": place, **self._place_in_queue(queued)} for place, queued in active]
            else:
                first = heapq.nsmallest(most, pools[name], key=self._backoff_end if name == "backoff" else _queued_at)
                items = [self._place_in_queue(queued) for queued in first]
            queues.append({"queue": name, "pods": counts[name], "readable": len(pools[name]), "items": items})
        return {"apiVersion": API_VERSION, "kind": "QueueReport", "namespace": namespace, "queues": queues}

    def _place_in_queue(self, queued: QueuedPod) -> dict[str, Any]:
        now, pod = self._clocks.monotonic(), queued.pod
        name = self._queue.queue_of(pod.uid)
        shown: dict[str, Any] = {
            "pod": pod.key,
            "uid": pod.uid,
            "schedulerName": pod.scheduler_name,
            "queue": name,
            "priority": pod.priority,
            "since": format_time(datetime.fromtimestamp(queued.timestamp, UTC)),
            "seconds": round(now - queued.queued_at, 3),
            "attempts": queued.attempts,
            "rejectedBy": sorted(queued.rejectors),
        }
        if name == "backoff":
            shown["backoffSeconds"] = round(max(0.0, self._queue.backoff_until(queued) - now), 3)
        if queued.gated:
            shown["gate"] = {"plugin": queued.gating_plugin, "message": queued.gate_message[:_MOST_MESSAGE]}
        return shown

    def _backoff_end(self, queued: QueuedPod) -> tuple[MonotonicSeconds, MonotonicSeconds]:
        return self._queue.backoff_until(queued), queued.queued_at

    # Shadows --------------------------------------------------------------------------------------------------------

    def _shadow(self, question: ShadowQuestion) -> dict[str, Any]:
        if self._shadows is None:
            raise UnansweredError(404, "no profile has a shadow")
        shown = self._shadows.show(namespace=question.namespace, most=question.most)
        return {"apiVersion": API_VERSION, "kind": "ShadowReport", "namespace": question.namespace, **shown}

    # Nodes ----------------------------------------------------------------------------------------------------------

    def _node(self, name: str) -> dict[str, Any]:
        snapshot = self._attempts.snapshot()
        row = snapshot.row(name)
        if row < 0:
            raise UnansweredError(404, "the scheduler knows no node of this name")
        decisions, by_plugin = self._history.rejections.of(snapshot, row)
        return {
            **node_facts(snapshot, row),
            "chosen": {"decisions": len(self._history), "times": self._history.count_chosen(name)},
            "rejected": {
                "decisions": decisions,
                "byPlugin": dict(sorted(by_plugin.items(), key=lambda counted: (-counted[1], counted[0]))),
            },
        }


def _queued_at(queued: QueuedPod) -> MonotonicSeconds:
    return queued.queued_at
