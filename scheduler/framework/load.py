"""Measured load of nodes, as providers deliver it and as plugins read it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from scheduler.framework.status import FloatArray


class NodeLoad(Struct, frozen=True):
    """Load of one node in per cent of its capacity; NaN means not measured, which is never the same as 0.

    `timestamp` is the time of the sample (seconds since the epoch); 0 means that the source gave none, and counts as
    fresh. `cpu_first` and `cpu_last` are the first and the last of several CPU averages a load-watcher may list, which
    Peaks and TargetLoadPacking read upstream; None where there is just `cpu_average`.
    """

    cpu_average: float = math.nan
    cpu_stddev: float = math.nan
    memory_average: float = math.nan
    memory_stddev: float = math.nan
    timestamp: float = 0.0
    cpu_first: float | None = None
    cpu_last: float | None = None


REPORT_INTERVAL = 60.0
"""Seconds before the end of the window from which on a pod's use is taken to be missing in it (upstream's constant)."""


@dataclass(frozen=True, slots=True)
class LoadTable:
    """One answer of a load source.

    Attributes:
        source: `TrimaranArgs.source_key()` of the plugins that read it.
        timestamp: when the answer was received, seconds since the epoch.
        window_end: end of the averaging window, whole seconds since the epoch; pods bound around it are not in the
        averages.
        nodes: load by the name (or an address) of the node.
    """

    source: str
    timestamp: float
    window_end: float
    nodes: Mapping[str, NodeLoad] = field(default_factory=dict)
    window_start: float = 0.0


@dataclass(slots=True)
class LoadColumns:
    """A LoadTable laid out by node row; NaN where a node has no value."""

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


@dataclass(frozen=True, slots=True)
class LoadCoverage:
    """How an answer fits the nodes: how many nodes got a value, which names match none, which nodes have nothing."""

    matched: int
    unknown: tuple[str, ...]
    missing: tuple[str, ...]
