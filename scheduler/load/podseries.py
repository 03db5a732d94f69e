"""What pods use by the series of cAdvisor in Prometheus, averaged over the same window as the nodes' loads.

A metrics server tells what a pod used for some seconds: a guess beside a node's average of a quarter of an hour.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from scheduler.load.prometheus import PrometheusSource, sample_value
from scheduler.load.settings import LoadSettings

_CONTAINERS: Final = '{container!="",container!="POD"}'
"""Without a pod's own cgroup, which sums its containers up, and without sandboxes."""
_BY_POD: Final = "(namespace, pod)"
_MOST_BYTES: Final = 64 * 1024 * 1024
"""Of one answer: 250 bytes a pod, 150,000 pods."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """What a pod used on average: CPU in milli-units, memory in bytes; NaN where there is no series.

    Attributes:
        at: of the newest sample, seconds since the epoch.
    """

    cpu: float = math.nan
    memory: float = math.nan
    at: float = math.nan


class PodSeriesSource:
    """Three instant queries a read. Blocking; used by one thread at a time."""

    def __init__(self, settings: LoadSettings, clock: Callable[[], float] = time.time) -> None:
        self._window = settings.window
        self._clock = clock
        self._prometheus = PrometheusSource(replace(settings, max_bytes=_MOST_BYTES))

    def close(self) -> None:
        """Close the session."""
        self._prometheus.close()

    def read(self) -> Mapping[str, PodUse]:
        """Return the use by pod (`namespace/name`); those without a sample of the last minutes are missing.

        Raises:
            LoadError: a query was not answered.
        """
        now = self._clock()
        cpu, memory, sampled = (
            _by_pod(self._prometheus.ask(f"{aggregate} by {_BY_POD} ({expression})", now))
            for aggregate, expression in (
                ("sum", f"rate(container_cpu_usage_seconds_total{_CONTAINERS}[{self._window}])"),
                ("sum", f"avg_over_time(container_memory_working_set_bytes{_CONTAINERS}[{self._window}])"),
                ("max", f"timestamp(container_memory_working_set_bytes{_CONTAINERS})"),
            )
        )
        return {
            key: PodUse(1000 * cpu.get(key, math.nan), memory.get(key, math.nan), at) for key, at in sampled.items()
        }


def _by_pod(series: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    values: dict[str, float] = {}
    for sample in series:
        labels, value = sample.get("metric") or {}, sample_value(sample.get("value"))
        namespace, pod = labels.get("namespace"), labels.get("pod")
        if namespace and pod and value is not None:
            values[f"{namespace}/{pod}"] = value
    return values
