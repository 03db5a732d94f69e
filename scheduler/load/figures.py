"""Which numbers of a source count, and what a load-watcher's list of metrics means."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler.framework import NodeLoad

MAX_PERCENT = 100_000.0
"""A load beyond a thousand times the capacity is a broken rule or a wrong unit, not a load."""
_AVERAGES = ("AVG", "Latest")


class Metric(NamedTuple):
    """One entry of a load-watcher's list."""

    type: str
    operator: str
    value: float


class Rejections:
    """What is left out of a reading.

    Attributes:
        counts: how many values, by query.
        reasons: why the first of them was, by query.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.reasons: dict[str, str] = {}

    def add(self, query: str, reason: str, count: int = 1) -> None:
        """Count values that are left out for a reason."""
        if count:
            self.counts[query] = self.counts.get(query, 0) + count
            self.reasons.setdefault(query, reason)


def is_usable(value: float) -> bool:
    """Return whether a percentage can be a load: finite, not negative, not absurdly large."""
    return math.isfinite(value) and 0.0 <= value <= MAX_PERCENT


def load_of_metrics(metrics: Sequence[Metric], measured_at: float = math.nan) -> NodeLoad:
    """Return what a node's metrics say, by the rules of scheduler-plugins v0.34.7 (pkg/trimaran/resourcestats.go).

    An average by operator AVG wins over one by Latest or without operator; of several the last wins. Peaks takes the
    first of AVG and Latest, TargetLoadPacking the last. A type that is listed without average or deviation has a
    deviation of 0, which upstream takes for a measurement and `safe` mode does not.
    """
    cpu_average, cpu_stddev = _average_and_deviation(metrics, "CPU")
    memory_average, memory_stddev = _average_and_deviation(metrics, "Memory")
    averages = [metric.value for metric in metrics if metric.type == "CPU" and metric.operator in _AVERAGES]
    return NodeLoad(
        cpu_average=cpu_average,
        cpu_stddev=cpu_stddev,
        memory_average=memory_average,
        memory_stddev=memory_stddev,
        measured_at=measured_at,
        cpu_first=averages[0] if averages else math.nan,
        cpu_last=averages[-1] if averages else math.nan,
    )


def _average_and_deviation(metrics: Iterable[Metric], kind: str) -> tuple[float, float]:
    average = deviation = math.nan
    is_exact = is_listed = False
    for metric in metrics:
        if metric.type != kind:
            continue
        is_listed = True
        if metric.operator == "AVG":
            average, is_exact = metric.value, True
        elif metric.operator == "STD":
            deviation = metric.value
        elif metric.operator in ("", "Latest") and not is_exact:
            average = metric.value
    if is_listed and math.isnan(average) and math.isnan(deviation):
        deviation = 0.0
    return average, deviation
