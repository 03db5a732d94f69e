"""Measuring attempts: what extension points, plugins and queueing hints take, as metrics under upstream's names.

Extension points are measured in every attempt, plugins in one of ten: upstream found that measuring each plugin each
time costs more than the plugins (pkg/scheduler/framework/cycle_state.go, `recordPluginMetrics`). Queueing hints are
measured one of ten times too: one event may ask the hints of thousands of pods.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from scheduler.framework import Code, Hint, Status
from scheduler.observe import Count, Distribution, Metrics

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
            shown = point in _EVALUATED
            count = self._metrics.plugin_evaluations.labels(plugin, point, self._profile) if shown else Count()
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
