"""Which numbers of a source count, and what a load-watcher's list of metrics means."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from scheduler.framework import NodeLoad

MOST_PERCENT = 100_000.0
"""A load beyond a thousand times the capacity is a broken rule or a wrong unit, not a load."""
_AVERAGES = ("AVG", "Latest")


class Metric(NamedTuple):
    """One entry of a load-watcher's list."""

    type: str
    operator: str
    value: float


def usable(value: float) -> bool:
    """Tell whether a percentage can be a load: finite, not negative, not absurdly large."""
    return math.isfinite(value) and 0.0 <= value <= MOST_PERCENT


def instance_load(metrics: Iterable[Metric]) -> NodeLoad:
    """Return what a node's metrics say, by the rules of scheduler-plugins v0.34.7 (pkg/trimaran/resourcestats.go).

    An average by operator AVG wins over one by Latest or without operator; of several the last wins. Peaks takes the
    first of AVG and Latest, TargetLoadPacking the last. A type that is listed without average or deviation has a
    deviation of 0, which upstream takes for a measurement and `safe` mode does not.
    """
    listed = list(metrics)
    cpu_average, cpu_stddev = _of_type(listed, "CPU")
    memory_average, memory_stddev = _of_type(listed, "Memory")
    averages = [one.value for one in listed if one.type == "CPU" and one.operator in _AVERAGES]
    return NodeLoad(
        cpu_average=cpu_average,
        cpu_stddev=cpu_stddev,
        memory_average=memory_average,
        memory_stddev=memory_stddev,
        cpu_first=averages[0] if averages else math.nan,
        cpu_last=averages[-1] if averages else math.nan,
    )


def _of_type(metrics: Iterable[Metric], kind: str) -> tuple[float, float]:
    average = deviation = math.nan
    exact = listed = False
    for metric in metrics:
        if metric.type != kind:
            continue
        listed = True
        if metric.operator == "AVG":
            average, exact = metric.value, True
        elif metric.operator == "STD":
            deviation = metric.value
        elif metric.operator in ("", "Latest") and not exact:
            average = metric.value
    if listed and math.isnan(average) and math.isnan(deviation):
        deviation = 0.0
    return average, deviation
