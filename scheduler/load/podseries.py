"""What pods use by the series of cAdvisor in Prometheus, averaged over the same window as the nodes' loads.

A metrics server tells what a pod used for some seconds: a guess beside a node's average of a quarter of an hour.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.load.figures import Rejections
from scheduler.load.prometheus import PrometheusSource, is_amount
from scheduler.load.settings import Known, LoadSettings

_CONTAINERS: Final = 'container!="",container!="POD"'
"""Without a pod's own cgroup, which sums its containers up, and without sandboxes."""
_BY_POD: Final = "(namespace, pod)"
_PODS_A_QUERY: Final = 40_000
"""At 250 bytes each, 10 of the 16 MiB that an answer may have: some queries bring more pods than others."""
_LAST_CHARACTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Of the names of pods. Controllers choose them at random, or number their pods."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """What a pod used on average: CPU in milli-units, memory in bytes; NaN where there is no series.

    Attributes:
        at: of the newest sample, seconds since the epoch.
    """

    cpu: float = math.nan
    memory: float = math.nan
    at: float = math.nan


@dataclass(frozen=True, slots=True)
class PodUses:
    """What pods used.

    Attributes:
        by_pod: by `namespace/name`; pods without a sample of the last minutes are missing.
        left_out: how many samples could not be used, and why; "" for none.
    """

    by_pod: Mapping[str, PodUse]
    left_out: str = ""


class PodSeriesSource:
    """Three instant queries a read, and in a large cluster several of each. Blocking; used by one thread at a time."""

    def __init__(
        self, settings: LoadSettings, clock: Callable[[], float] = time.time, known: Known | None = None
    ) -> None:
        """`known` is how many pods there are."""
        self._window = settings.window
        self._clock = clock
        self._known = known
        self._prometheus = PrometheusSource(settings, known=known)

    def close(self) -> None:
        """Close the session."""
        self._prometheus.close()

    def read(self) -> PodUses:
        """Return what pods used.

        Raises:
            LoadError: a query was not answered.
        """
        now = self._clock()
        rejections = Rejections()
        cpu, memory, sampled = (
            self._by_pod(function, series, now, rejections)
            for function, series in (
                ("sum", f"rate(container_cpu_usage_seconds_total{{$pods}}[{self._window}])"),
                ("sum", f"avg_over_time(container_memory_working_set_bytes{{$pods}}[{self._window}])"),
                ("max", "timestamp(container_memory_working_set_bytes{$pods})"),
            )
        )
        uses = {
            key: PodUse(1000 * cpu.get(key, math.nan), memory.get(key, math.nan), at) for key, at in sampled.items()
        }
        count, reason = sum(rejections.counts.values()), next(iter(rejections.reasons.values()), "")
        return PodUses(uses, f"{count} samples are left out, the first as {reason}" if count else "")

    def _by_pod(self, function: str, series: str, at: float, rejections: Rejections) -> dict[str, float]:
        values: dict[str, float] = {}
        for pods in _selectors(0 if self._known is None else self._known()):
            vector = self._prometheus.ask(f"{function} by {_BY_POD} ({series.replace('$pods', pods)})", at)
            rejections.add(series, vector.reason, vector.rejected)
            for sample in vector.samples:
                namespace, pod = sample.labels.get("namespace"), sample.labels.get("pod")
                if not namespace or not pod:
                    rejections.add(series, "it names no pod")
                elif is_amount(sample.value):
                    values[f"{namespace}/{pod}"] = sample.value
                else:
                    rejections.add(series, f"{sample.value} is no use of a pod")
        return values


def _selectors(pods: int) -> list[str]:
    """Return selectors that have all pods between them, and so many that no answer gets too large."""
    parts = -(-pods // _PODS_A_QUERY)
    if parts <= 1:
        return [_CONTAINERS]
    return [f'{_CONTAINERS},pod=~".*[{_LAST_CHARACTERS[part::parts]}]"' for part in range(parts)]
