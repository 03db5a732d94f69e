"""Measuring attempts: what extension points, plugins and queueing hints take, as metrics under upstream's names.

Extension points are measured in every attempt, plugins in one of ten: upstream found that measuring each plugin each
time costs more than the plugins (pkg/scheduler/framework/cycle_state.go, `recordPluginMetrics`). Queueing hints are
measured one of ten times too: one event may ask the hints of thousands of pods.

One trace per attempt to place a pod: how long each part took, and what came of it.

The loop notes times and values only; the thread that sends makes spans of them. Each attempt is a trace of its own:
nothing of a pod continues another trace (a `traceparent` annotation, say), as whoever creates pods could then make the
scheduler trace what it should not, or write into traces of others.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from scheduler.core import Placement, PostFilterOutcome
from scheduler.engine.failures import UNSCHEDULABLE, AttemptFailure
from scheduler.framework import Code, Hint, MonotonicSeconds, PodInfo, Status
from scheduler.observe import AttributeValue, Count, Distribution, Metrics, Span, SpanEvent, Trace
from scheduler.state import QueuedPod

SAMPLED = 0.1
"""Share of the attempts in which plugins are measured; upstream's pluginMetricsSamplePercent."""
HINTS_PER_SAMPLE = 10
_EVALUATED = frozenset({"PreFilter", "Filter", "PreScore", "Score"})
STATUS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
"""Codes as upstream words them in labels."""
_POINTS = {"NormalizeScore": "ScoreExtensionNormalize"}
_HINTS = {Hint.QUEUE: "Queue", Hint.SKIP: "QueueSkip", None: "Error"}


class ProfileTiming:
    """Measures the attempts of one profile (`scheduler.framework.AttemptTiming`)."""

    def __init__(
        self,
        profile: str,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.perf_counter,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.now = clock
        self.times_plugins = False
        self._profile, self._metrics, self._chance = profile, metrics, chance
        self._lap_began = clock()
        self._points: dict[tuple[str, Code], Distribution] = {}
        self._plugins: dict[tuple[str, str, Code], Distribution] = {}
        self._evaluations: dict[tuple[str, str], Count] = {}

    def begin(self) -> None:
        """Extension points begin that are called one right after the other."""
        self._lap_began = self.now()

    def begin_attempt(self) -> None:
        """Choose whether plugins are measured in the attempt that begins."""
        self.times_plugins = self._chance() < SAMPLED

    def lap(self, point: str, code: Code = Code.SUCCESS) -> None:
        """An extension point ended with a code; it began when the one before ended."""
        now = self.now()
        series = self._points.get((point, code))
        if series is None:
            series = self._new_point(point, code)
        series.observe(now - self._lap_began)
        self._lap_began = now

    def point(self, point: str, code: Code, seconds: float) -> None:
        """An extension point took so many seconds."""
        series = self._points.get((point, code))
        if series is None:
            series = self._new_point(point, code)
        series.observe(seconds)

    def _new_point(self, point: str, code: Code) -> Distribution:
        name = "Score" if point in _POINTS else point
        series = self._points[point, code] = self._metrics.point_duration.labels(name, STATUS[code], self._profile)
        return series

    def called(self, plugin: str, point: str) -> None:
        """A plugin is called."""
        count = self._evaluations.get((plugin, point))
        if count is None:
            # Others are only counted here, and not shown: upstream counts these four.
            is_exported = point in _EVALUATED
            count = self._metrics.plugin_evaluations.labels(plugin, point, self._profile) if is_exported else Count()
            self._evaluations[plugin, point] = count
        count.value += 1

    def plugin(self, plugin: str, point: str, answer: object, seconds: float) -> None:
        """A plugin gave an answer after so many seconds."""
        code = _code_of(answer)
        series = self._plugins.get((plugin, point, code))
        if series is None:
            series = self._metrics.plugin_duration.labels(plugin, _POINTS.get(point, point), STATUS[code])
            self._plugins[plugin, point, code] = series
        series.observe(seconds)


def _code_of(answer: object) -> Code:
    if isinstance(answer, tuple):
        answer = next((part for part in answer if isinstance(part, Status)), None)
    return answer.code if isinstance(answer, Status) else Code.SUCCESS


class QueueTiming:
    """Measures and counts what the scheduling queue does (`scheduler.state.QueueObserver`).

    Args:
        metrics: where.
        clock: seconds.
        named: returns what metrics call an event.
    """

    def __init__(
        self, metrics: Metrics, clock: Callable[[], float] = time.perf_counter, named: Callable[[str], str] = str
    ) -> None:
        self.now = clock
        self._metrics = metrics
        self._named = named
        self._entered: dict[tuple[str, str], Count] = {}
        self._hints = 0

    def entered(self, queue: str, event: str) -> None:
        """A pod entered a queue because of an event."""
        count = self._entered.get((queue, event))
        if count is None:
            count = self._entered[queue, event] = self._metrics.incoming_pods.labels(queue, self._named(event))
        count.value += 1

    def times_hint(self) -> bool:
        """Tell whether the hint that is to be asked now shall be measured."""
        self._hints += 1
        return not self._hints % HINTS_PER_SAMPLE

    def unasked(self, event: str) -> None:
        """A waiting pod was not asked about an event."""
        self._metrics.hints_unasked.labels(self._named(event)).inc()

    def hinted(self, plugin: str, event: str, hint: Hint | None, seconds: float) -> None:
        """A plugin's hint answered after so many seconds; None where it raised."""
        self._metrics.hint_duration.labels(plugin, self._named(event), _HINTS[hint]).observe(seconds)


_MAX_ATTEMPTS = 15
_VOLUMES = "VolumeBinding"


class AttemptCounts:
    """Counts in one process's metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def ended(self, result: str, pod: PodInfo, started: float) -> None:
        """An attempt ended as scheduled, unschedulable or error; `started` is `time.perf_counter` at its beginning."""
        self._metrics.schedule_attempts.labels(result, pod.scheduler_name).inc()
        self._metrics.attempt_duration.labels(result, pod.scheduler_name).observe(time.perf_counter() - started)

    def bound(self, queued: QueuedPod, now: MonotonicSeconds) -> None:
        """A pod is bound, however many attempts it took."""
        self._metrics.attempts_per_pod.observe(queued.attempts)
        if queued.flushed:
            self._metrics.scheduled_after_flush.inc()
        attempts = str(queued.attempts) if queued.attempts < _MAX_ATTEMPTS else f"{_MAX_ATTEMPTS}+"
        waited = now - (now if queued.first_active_at is None else queued.first_active_at)
        self._metrics.sli_duration.labels(attempts).observe(waited)
        self._metrics.count_bound(queued.pod.namespace, queued.attempts, waited)

    def filter_failed(self, placement: Placement) -> None:
        """A decision ended with an error; VolumeBinding's are counted."""
        error = placement.failure
        if error is not None and (error.plugin, error.point) == (_VOLUMES, "Filter"):
            self._metrics.volume_errors.labels("predicate").inc()

    def volume_error(self, status: Status, stage: str) -> None:
        """A node was lost on the way to it: where VolumeBinding was the reason, at which stage (assume, bind)."""
        if status.plugin == _VOLUMES:
            self._metrics.volume_errors.labels(stage).inc()


ATTEMPT: Final = "SchedulingAttempt"
DECISION: Final = "SchedulePod"
POST_FILTER: Final = "PostFilter"
PERMIT: Final = "WaitOnPermit"
BINDING: Final = "BindingCycle"
# Those of OpenTelemetry's semantic conventions, and our own.
NAMESPACE, POD, UID, NODE = "k8s.namespace.name", "k8s.pod.name", "k8s.pod.uid", "k8s.node.name"
ERROR_TYPE: Final = "error.type"
_OWN: Final = "secondary_scheduler."
_MAX_OPEN: Final = 50_000
"""Attempts that have begun and not ended: pods that wait for their gang, their volumes or a permission."""
_MAX_SPANS: Final = 20
"""Of an attempt: a gang may decide about a member many times."""
_MAX_MESSAGE: Final = 500


class _OpenAttempt:
    """An attempt that has not ended. Times are those of the clock."""

    __slots__ = ("binding_began", "last", "pre_bound", "spans", "started", "trace_id", "wall")

    def __init__(self, trace_id: int, started: float, wall: int) -> None:
        self.trace_id, self.started, self.wall = trace_id, started, wall
        self.last = started
        self.binding_began: float | None = None
        self.pre_bound: float | None = None
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        if len(self.spans) < _MAX_SPANS:
            self.spans.append(span)
        self.last = span.ended


class AttemptTraces:
    """Follows attempts. All methods run on the scheduling loop.

    Args:
        sample: returns the ID of a new trace, or None where the attempt is not traced.
        offer: takes the traces.
        clock: seconds; the one that `started` of attempts is of.
        wall: nanoseconds since 1970.
    """

    def __init__(
        self,
        sample: Callable[[], int | None],
        offer: Callable[[Trace], None],
        *,
        clock: Callable[[], float] = time.perf_counter,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._sample, self._offer, self._clock, self._wall = sample, offer, clock, wall
        self._open: OrderedDict[str, _OpenAttempt] = OrderedDict()
        self._decided = clock()

    def begin(self, queued: QueuedPod, started: float) -> None:
        """An attempt began at this time of the clock."""
        self.not_tried(queued.pod.uid)
        trace_id = self._sample()
        if trace_id is None:
            return
        wall = self._wall() - int((self._clock() - started) * 1e9)
        self._open[queued.pod.uid] = _OpenAttempt(trace_id, started, wall)
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)

    def decided(self, placement: Placement) -> None:
        """A pod was given a node, or none; it was the loop's only work since the attempt began, or since the decision
        before, about another member of the gang."""
        now = self._clock()
        attempt = self._open.get(placement.pod.uid)
        if attempt is not None:
            attributes: dict[str, AttributeValue] = {
                f"{_OWN}evaluated_nodes": placement.evaluated,
                f"{_OWN}feasible_nodes": placement.feasible,
            }
            if placement.node is not None:
                attributes[NODE] = placement.node
                attributes[f"{_OWN}score"] = placement.total
            attempt.add(Span(DECISION, max(attempt.last, self._decided), now, attributes))
        self._decided = now

    def post_filtered(self, pod: PodInfo, outcome: PostFilterOutcome) -> None:
        """Preemption was tried for a pod that fits nowhere, right after the decision."""
        attempt = self._open.get(pod.uid)
        if attempt is None or outcome.status is None:
            return
        attributes: dict[str, AttributeValue] = {
            f"{_OWN}status": STATUS[outcome.status.code],
            f"{_OWN}victims": len(outcome.victims),
        }
        if outcome.nominated_node:
            attributes[NODE] = outcome.nominated_node
        attempt.add(Span(POST_FILTER, attempt.last, self._clock(), attributes))

    def waited(self, pod: PodInfo, seconds: float, status: Status) -> None:
        """A pod that has a node waited for a permission, or for the others of its gang."""
        attempt = self._open.get(pod.uid)
        if attempt is not None:
            now = self._clock()
            attempt.add(Span(PERMIT, max(attempt.started, now - seconds), now, {f"{_OWN}status": STATUS[status.code]}))

    def binding(self, pod: PodInfo) -> None:
        """PreBind begins."""
        attempt = self._open.get(pod.uid)
        if attempt is not None:
            attempt.binding_began = self._clock()

    def pre_bound(self, pod: PodInfo) -> None:
        """PreBind ended with success."""
        attempt = self._open.get(pod.uid)
        if attempt is not None:
            attempt.pre_bound = self._clock()

    def bound(self, queued: QueuedPod) -> None:
        """The pod was bound."""
        attempt = self._open.pop(queued.pod.uid, None)
        if attempt is not None:
            self._end(attempt, queued, "scheduled", {}, None)

    def not_tried(self, uid: str) -> None:
        """An attempt counts for nothing: the pod returns to the queue as if there had been none."""
        self._open.pop(uid, None)

    def failed(self, queued: QueuedPod, failure: AttemptFailure, queue: str) -> None:
        """An attempt ended without a node; the pod waits in this queue now, or is gone where that is ""."""
        attempt = self._open.pop(queued.pod.uid, None)
        if attempt is None:
            return
        message = failure.message[:_MAX_MESSAGE]
        attributes: dict[str, AttributeValue] = {f"{_OWN}message": message}
        if failure.rejectors:
            attributes[f"{_OWN}rejected_by"] = sorted(failure.rejectors)
        if queue:
            attributes[f"{_OWN}queue"] = queue
        if failure.reason == UNSCHEDULABLE:
            self._end(attempt, queued, "unschedulable", attributes, None)
            return
        attributes[ERROR_TYPE] = failure.reason
        self._end(attempt, queued, "error", attributes, message)

    def _end(
        self,
        attempt: _OpenAttempt,
        queued: QueuedPod,
        result: str,
        attributes: dict[str, AttributeValue],
        error: str | None,
    ) -> None:
        pod, now = queued.pod, self._clock()
        if attempt.binding_began is not None:
            events = () if attempt.pre_bound is None else (SpanEvent("PreBind", attempt.pre_bound),)
            attempt.add(Span(BINDING, attempt.binding_began, now, {}, events, error))
        attributes |= {
            NAMESPACE: pod.namespace,
            POD: pod.name,
            UID: pod.uid,
            f"{_OWN}profile": pod.scheduler_name,
            f"{_OWN}attempt": queued.attempts,
            f"{_OWN}result": result,
        }
        if result == "scheduled":
            node = next((span.attributes[NODE] for span in reversed(attempt.spans) if NODE in span.attributes), None)
            if node is not None:
                attributes[NODE] = node
        root = Span(ATTEMPT, attempt.started, now, attributes, (), error)
        self._offer(Trace(attempt.trace_id, attempt.started, attempt.wall, [root, *attempt.spans]))
