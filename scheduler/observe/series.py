"""Counters and histograms that cost next to nothing to add to: plain numbers, changed on the loop, read at a scrape.

Those of the Prometheus client take a lock per observation and check their labels each time: about a microsecond, of
which an attempt to place a pod would need some thirty. These are changed by one thread only, the scheduling loop's. The
serving thread reads copies that the interpreter makes in one step; a histogram may then be one observation ahead of its
sum, as with the Prometheus client.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

S = TypeVar("S")


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bucket bounds as Go computes them, by repeated multiplication: the last digits are the same."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class Count:
    """One series of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        """Add to it."""
        self.value += amount


class Distribution:
    """One series of a histogram."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Add a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class _Family(Collector, Generic[S]):
    """The series of one metric, by their labels; made at the first use of a combination, as upstream's are."""

    kind = ""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry | None) -> None:
        self.name, self.text, self.label_names = name, text, labels
        self._series: dict[tuple[str, ...], S] = {}
        if not labels:
            self._series[()] = self._new()
        if registry is not None:
            registry.register(self)

    def labels(self, *values: str) -> S:
        """Return the series with these values, in the order of the names."""
        series = self._series.get(values)
        if series is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has the labels {self.label_names}, not {len(values)} of them")
            series = self._series[values] = self._new()
        return series

    def series(self) -> list[tuple[tuple[str, ...], S]]:
        """Return the series there are."""
        return list(self._series.items())

    def describe(self) -> Iterable[Metric]:
        """Return the metric without series: the registry needs its name."""
        return [self._family()]

    @abstractmethod
    def _new(self) -> S: ...

    @abstractmethod
    def _family(self) -> Metric: ...


class CounterFamily(_Family[Count]):
    """A counter with labels, or without any."""

    kind = "counter"

    def _new(self) -> Count:
        return Count()

    def _family(self) -> CounterMetricFamily:
        return CounterMetricFamily(self.name, self.text, labels=self.label_names)

    def inc(self, amount: float = 1) -> None:
        """Add to the series of a counter without labels."""
        self._series[()].value += amount

    def collect(self) -> Iterator[Metric]:
        """Return what a scrape shows."""
        family = self._family()
        for values, count in self.series():
            family.add_metric(values, count.value)
        yield family


class MirroredCounters(CounterFamily):
    """A counter that shows another one with one more label, whose value never changes: counting costs nothing more."""

    def __init__(
        self, name: str, text: str, counted: CounterFamily, label: tuple[str, str], registry: CollectorRegistry | None
    ) -> None:
        self._counted, self._value = counted, label[1]
        super().__init__(name, text, (*counted.label_names, label[0]), registry)

    def series(self) -> list[tuple[tuple[str, ...], Count]]:
        """Return the series there are."""
        return [((*values, self._value), count) for values, count in self._counted.series()]


class Histograms(_Family[Distribution]):
    """A histogram with labels, or without any."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        text: str,
        buckets: tuple[float, ...],
        labels: tuple[str, ...],
        registry: CollectorRegistry | None,
    ) -> None:
        self.buckets = buckets
        self._bounds = [*map(floatToGoString, buckets), "+Inf"]
        super().__init__(name, text, labels, registry)

    def _new(self) -> Distribution:
        return Distribution(self.buckets)

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self.name, self.text, labels=self.label_names)

    def observe(self, value: float) -> None:
        """Add a value to the series of a histogram without labels."""
        self._series[()].observe(value)

    def collect(self) -> Iterator[Metric]:
        """Return what a scrape shows."""
        family = self._family()
        for values, series in self.series():
            total, counts = series.total, series.counts[:]
            below, buckets = 0, []
            for bound, count in zip(self._bounds, counts, strict=True):
                below += count
                buckets.append((bound, below))
            family.add_metric(values, buckets, total)
        yield family


_UPSTREAMS = ("scheduler_", "rest_client_", "workqueue_", "leader_election_", "kubernetes_", "process_start_time_")
"""How the names of upstream's own metrics begin, whose help texts say how stable they are."""


class VisibleMetrics(CollectorRegistry):
    """A registry without the metrics that nobody wants to see (`--disabled-metrics`), with upstream's help texts' mark
    of how stable a metric is: as `levels` says, else ALPHA."""

    def __init__(self, registry: CollectorRegistry, hidden: frozenset[str], levels: Mapping[str, str]) -> None:
        super().__init__()
        self._levels = levels
        self._registry = registry
        # A counter is named without its suffix there.
        self._hidden = hidden | {name.removesuffix("_total") for name in hidden}

    def collect(self) -> Iterator[Metric]:
        """Return what a scrape shows."""
        return (self._marked(family) for family in self._registry.collect() if family.name not in self._hidden)

    def _marked(self, family: Metric) -> Metric:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if not name.startswith(_UPSTREAMS):
            return family
        marked = copy(family)
        marked.documentation = f"[{self._levels.get(name, 'ALPHA')}] {family.documentation}"
        return marked
