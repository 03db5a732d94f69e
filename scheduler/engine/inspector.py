"""Answers to those who ask about decisions: pods, the queue, nodes. `decisions` remembers; here it is looked up, and
what waits is looked at again.

Answering takes time from the scheduling loop, so it has an allowance, of which no namespace's askers get more than a
part: a tenant that asks without end slows nobody's pods down.
"""

from __future__ import annotations

import heapq
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import asdict, replace

from scheduler.answers import (
    ChosenCount,
    DecisionList,
    Document,
    Gate,
    NodePods,
    NodeReport,
    NodeTaint,
    Queue,
    QueueReport,
    RejectedCount,
    ShadowReport,
    TriedAgain,
    WaitingPod,
    WhyNot,
)
from scheduler.core import detail_of, explain, gang_of, judge_node, load_of_node, report_gang, without_own_use
from scheduler.engine.allowance import FairAllowance
from scheduler.engine.attempts import AttemptPipeline
from scheduler.engine.decisionrecords import MAX_MESSAGE
from scheduler.engine.decisions import BEST_NODES, DecisionHistory
from scheduler.engine.shadows import Shadows
from scheduler.framework import Clocks, MonotonicSeconds, PodInfo
from scheduler.kube.primitives import format_milli, format_seconds, format_value
from scheduler.observe import (
    ChosenQuestion,
    NodeQuestion,
    PodsQuestion,
    Question,
    QueueQuestion,
    ShadowQuestion,
    UnansweredError,
)
from scheduler.state import QueuedPod, SchedulingQueue, Snapshot

ANSWER_SHARE: Final = 0.05
"""Of one processor's time, for answers."""
ANSWER_BURST: Final = 2.0
"""Seconds for answers that a calm period may save up."""
_EVERYBODY: Final = ""
"""The asker of questions about all namespaces, and about nodes."""
_MAX_SCHEDULERS: Final = 10
"""Whose pods are counted apart; whoever creates a pod may invent a name."""
_QUEUES: Final = ("active", "backoff", "unschedulable", "gated")


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

    def answer(self, question: Question) -> Document:
        """Return the answer.

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
                    return self._history.show(node=question.node, limit=question.limit)
        finally:
            self._allowance.spend(asker, time.perf_counter() - began)

    # Pods -----------------------------------------------------------------------------------------------------------

    def _pods(self, question: PodsQuestion) -> DecisionList:
        namespace, name = question.namespace, question.pod
        decisions = replace(
            self._history.show(namespace=namespace, pod=name, limit=question.limit),
            scheduler_names=tuple(sorted(self._attempts.runners)),
            history=self._history.coverage(),
        )
        if namespace is None or name is None:
            return decisions
        queued = self._waiting_named(namespace, name)
        return replace(
            decisions,
            waiting=None if queued is None else self._tried_again(queued),
            why_not=None if question.node is None else self._why_not(namespace, name, queued, question.node),
        )

    def _waiting_named(self, namespace: str, name: str) -> QueuedPod | None:
        uid = self._history.uid_of(namespace, name)
        queued = self._queue.get(uid) if uid is not None else None
        if queued is not None:
            return queued
        # Gated, not tried yet, or its decisions are forgotten.
        named = (queued for queued in self._queue.pending() if queued.pod.name == name)
        return next((queued for queued in named if queued.pod.namespace == namespace), None)

    def _tried_again(self, queued: QueuedPod) -> TriedAgain:
        """Where a pod waits, and what would have it tried again."""
        snapshot, runner = self._attempts.snapshot(), self._attempts.runner_of(queued.pod)
        waiting, ahead, gang = self._waiting(queued), None, gang_of(runner, queued.pod)
        if waiting.queue == "active":
            ahead = self._queue.first_active(1, lambda other: other is queued)[0][0] - 1
        return TriedAgain(
            **asdict(waiting),
            woken_by={plugin: tuple(events) for plugin, events in self._queue.events_that_wake(queued).items()},
            now=detail_of(explain(snapshot, queued.pod, runner), snapshot, runner, None, BEST_NODES),
            pods_ahead=ahead,
            gang=None if gang is None else report_gang(snapshot, gang, self._attempts.runners, random.Random(0)),
        )

    def _why_not(self, namespace: str, name: str, queued: QueuedPod | None, node: str) -> WhyNot:
        """What every plugin says of a pod on a node as it is now."""
        pod = queued.pod if queued is not None else self._placed(namespace, name)
        if pod is None:
            return WhyNot(node, None, "the pod neither waits nor has a node, so nothing is judged", None)
        return why_not(self._attempts, pod, node)

    def _placed(self, namespace: str, name: str) -> PodInfo | None:
        state = self._attempts.state
        uid = self._history.uid_of(namespace, name)
        pod = state.pod(uid) if uid is not None else None
        if pod is not None:
            return pod
        named = (pod for pod in state.pods() if pod.name == name)
        return next((pod for pod in named if pod.namespace == namespace), None)

    # The queue ------------------------------------------------------------------------------------------------------

    def _waiting_pods(self, question: QueueQuestion) -> QueueReport:
        namespace, limit = question.namespace, question.limit
        pools: dict[str, list[QueuedPod]] = {name: [] for name in _QUEUES}
        for queued in self._queue.pending():
            if namespace is None or queued.pod.namespace == namespace:
                pools[self._queue.queue_of(queued.pod.uid) or "active"].append(queued)
        counts = self._queue.counts()
        active = self._queue.first_active(limit, lambda queued: namespace is None or queued.pod.namespace == namespace)
        queues = []
        for name in _QUEUES:
            if name == "active":
                items = [self._waiting(queued, place) for place, queued in active]
            else:
                first = heapq.nsmallest(limit, pools[name], key=self._backoff_end if name == "backoff" else _queued_at)
                items = [self._waiting(queued) for queued in first]
            queues.append(Queue(name, counts[name], len(pools[name]), tuple(items)))
        return QueueReport(namespace=namespace, queues=tuple(queues))

    def _waiting(self, queued: QueuedPod, position: int | None = None) -> WaitingPod:
        now, pod = self._clocks.monotonic(), queued.pod
        name = self._queue.queue_of(pod.uid)
        backoff = max(0.0, self._queue.backoff_until(queued) - now) if name == "backoff" else None
        return WaitingPod(
            pod=pod.key,
            uid=pod.uid,
            scheduler_name=pod.scheduler_name,
            queue=name or "",
            priority=pod.priority,
            since=format_seconds(queued.timestamp),
            seconds=round(now - queued.queued_at, 3),
            attempts=queued.attempts,
            rejected_by=tuple(sorted(queued.rejectors)),
            position=position,
            backoff_seconds=None if backoff is None else round(backoff, 3),
            gate=Gate(queued.gating_plugin, queued.gate_message[:MAX_MESSAGE]) if queued.gated else None,
        )

    def _backoff_end(self, queued: QueuedPod) -> tuple[MonotonicSeconds, MonotonicSeconds]:
        return self._queue.backoff_until(queued), queued.queued_at

    # Shadows --------------------------------------------------------------------------------------------------------

    def _shadow(self, question: ShadowQuestion) -> ShadowReport:
        if self._shadows is None:
            raise UnansweredError(404, "no profile has a shadow")
        return self._shadows.show(namespace=question.namespace, limit=question.limit)

    # Nodes ----------------------------------------------------------------------------------------------------------

    def _node(self, name: str) -> NodeReport:
        snapshot = self._attempts.snapshot()
        row = snapshot.row(name)
        if row < 0:
            raise UnansweredError(404, "the scheduler knows no node of this name")
        decisions, by_plugin = self._history.rejections.of(snapshot, row)
        most_first = sorted(by_plugin.items(), key=lambda counted: (-counted[1], counted[0]))
        return replace(
            node_report(snapshot, row),
            chosen=ChosenCount(len(self._history), self._history.count_chosen(name)),
            rejected=RejectedCount(decisions, dict(most_first)),
        )


def why_not(attempts: AttemptPipeline, pod: PodInfo, node: str) -> WhyNot:
    """Return what every plugin says of a pod on a node as it is now; of a placed pod, without its own use."""
    snapshot = attempts.snapshot()
    if pod.scheduler_name not in attempts.runners:
        return WhyNot(node, None, "the pod belongs to another scheduler", None)
    if snapshot.row(node) < 0:
        return WhyNot(node, None, "no node has this name", None)
    placed_on = pod.node_name or None
    view, waiting = without_own_use(snapshot, pod) if placed_on else (snapshot, pod)
    verdict = judge_node(view, waiting, attempts.runner_of(pod), node, placed_on)
    return WhyNot(node, placed_on, None, verdict)


def node_report(snapshot: Snapshot, row: int) -> NodeReport:
    """Return what a snapshot says of the node in a row."""
    info, pods = snapshot.info(row), snapshot.pods_on(row)
    requested = {resource: int(snapshot.requested(resource)[row]) for resource in info.allocatable}
    return NodeReport(
        node=info.name,
        unschedulable=info.unschedulable,
        taints=tuple(NodeTaint(taint.key, taint.value, taint.effect) for taint in info.taints),
        allocatable=_quantities(info.allocatable),
        requested=_quantities(requested),
        pods=NodePods(info.allowed_pods, len(pods), _by_scheduler(pods)),
        load=load_of_node(snapshot, row),
    )


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {
        resource: format_milli(amount) if resource == "cpu" else format_value(amount)
        for resource, amount in sorted(amounts.items())
    }


def _by_scheduler(pods: Iterable[PodInfo]) -> dict[str, int]:
    counts = Counter(pod.scheduler_name for pod in pods)
    largest = dict(counts.most_common(_MAX_SCHEDULERS))
    others = counts.total() - sum(largest.values())
    return {**largest, "": others} if others else largest


def _queued_at(queued: QueuedPod) -> MonotonicSeconds:
    return queued.queued_at
