"""Measured load of nodes: as a source reports it (`LoadReading`), and as plugins read it by row (`LoadColumns`)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import overload

from msgspec import Struct

from scheduler.framework.status import BoolArray, FloatArray

REPORT_INTERVAL = 60.0
"""Seconds before the end of the window from which on a pod's use is taken to be missing in it (upstream's constant)."""

MAX_AHEAD = 60.0
"""Seconds by which the time of a sample may be ahead of this machine's clock: clocks differ, and Kubernetes allows as
much for the times of tokens. A sample further ahead says nothing about its age, and would not get old."""


class NodeLoad(Struct, frozen=True):
    """Load of one node in per cent of its capacity; NaN means not measured, which is never the same as 0.

    Attributes:
        cpu_average, cpu_stddev, memory_average, memory_stddev: over the averaging window.
        measured_at: time of the newest sample behind the values, seconds since the epoch; NaN where the source gives
            none.
        cpu_first, cpu_last: the first and the last of several CPU averages a load-watcher may list, which Peaks and
            TargetLoadPacking read upstream; None where there is just `cpu_average`.
    """

    cpu_average: float = math.nan
    cpu_stddev: float = math.nan
    memory_average: float = math.nan
    memory_stddev: float = math.nan
    measured_at: float = math.nan
    cpu_first: float | None = None
    cpu_last: float | None = None

    def figure(self, name: str) -> float:
        """Return a field by its name; `cpu_first` and `cpu_last` are the average where the source lists only one."""
        figure: float | None = getattr(self, name)
        return self.cpu_average if figure is None else figure


@dataclass(frozen=True, slots=True)
class LoadReading:
    """One answer of a load source.

    Attributes:
        loads: by the source's own name of the instance, which may be an address; `scheduler.load.match_nodes` makes
            it the name of the node.
        window_end: end of the averaging window, seconds since the epoch; pods bound around it are not in the averages.
        rejected: how many values were left out, by query: what is no sample of the source's form, and numbers that
            cannot be a load (NaN, infinite, negative, absurdly large).
        reasons: why the first of them was, by query.
        problems: sentences about figures that could not be read although others could.
        source: `ArgsModel.source_key()` of the plugins that read it; set by who hands the reading to the node table.
        answered_at: when the source answered, seconds since the epoch; None: at the window's end; 0: not known.
        window: what the loads are averaged over, as a Prometheus duration; empty: not known, or nothing.
    """

    loads: Mapping[str, NodeLoad]
    window_end: float
    rejected: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    source: str = ""
    answered_at: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    window: str = ""

    @property
    def left_out(self) -> str:
        """Say what was left out, and why the first of each query; "" for nothing."""
        return "; ".join(f"{query}: {count} ({self.reasons.get(query, '')})" for query, count in self.rejected.items())

    @property
    def timestamp(self) -> float:
        """When the source answered, seconds since the epoch; 0 where that is not known."""
        return self.window_end if self.answered_at is None else self.answered_at

    def sampled_at(self, load: NodeLoad) -> float:
        """Return when a load was measured. One without a sample time is as old as the answer."""
        return self.timestamp if math.isnan(load.measured_at) else load.measured_at

    def fresh_loads(self, now: float, max_age: float) -> dict[str, NodeLoad]:
        """Return the loads that are fresh; see `is_fresh`."""
        return {name: load for name, load in self.loads.items() if is_fresh(self.sampled_at(load), now, max_age)}


@dataclass(slots=True)
class LoadColumns:
    """A LoadReading by node row, NaN where a node has no value; columns may be longer than a view.

    `cpu_first` and `cpu_last` are the average where the source lists only one. `sampled_at` is what
    `LoadReading.sampled_at` says, and 0 for a node without load. `version` grows with each reading of the source.
    """

    source: str
    timestamp: float
    window_end: float
    cpu_average: FloatArray
    cpu_stddev: FloatArray
    memory_average: FloatArray
    memory_stddev: FloatArray
    cpu_first: FloatArray
    cpu_last: FloatArray
    sampled_at: FloatArray
    version: int = 0


@overload
def is_fresh(sampled_at: float, now: float, max_age: float) -> bool: ...
@overload
def is_fresh(sampled_at: FloatArray, now: float, max_age: float) -> BoolArray: ...
def is_fresh(sampled_at: float | FloatArray, now: float, max_age: float) -> bool | BoolArray:
    """Return whether samples may be used. This is the only place that judges the age of a measurement.

    Args:
        sampled_at: time of the sample, seconds since the epoch; 0: not known, which counts as fresh. More than
            `MAX_AHEAD` after `now` is not.
        now: the time to judge by, seconds since the epoch.
        max_age: the oldest age that is fresh, in seconds.
    """
    age = now - sampled_at
    return (sampled_at == 0.0) | ((age >= -MAX_AHEAD) & (age <= max_age))
