"""What a load source delivers, whatever the source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class LoadError(Exception):
    """A source could not be read; the text says what, where and why, and never holds a credential."""


class LoadRefused(LoadError):
    """The source does not accept the credential."""


@dataclass(frozen=True, slots=True)
class InstanceLoad:
    """The load of one instance, in per cent of its capacity; NaN where the source has no value.

    `measured_at` is the time of the newest sample behind the values, in seconds since the epoch. `cpu_first` and
    `cpu_last` are set where the source lists several averages of CPU (see `scheduler.framework.NodeLoad`).
    """

    cpu_average: float = math.nan
    cpu_stddev: float = math.nan
    memory_average: float = math.nan
    memory_stddev: float = math.nan
    measured_at: float = math.nan
    cpu_first: float | None = None
    cpu_last: float | None = None


@dataclass(frozen=True, slots=True)
class LoadReading:
    """One answer of a source: loads by the source's own instance label, which need not be a node's name.

    `window_end` is the time for which the source answered, in seconds since the epoch, `window_start` where its window
    begins if it says so. `rejected` counts values that were no usable number (NaN, infinite, negative, beyond
    `MOST_PERCENT`), by query. `problems` are sentences about figures that could not be had although others could.
    """

    instances: Mapping[str, InstanceLoad]
    window_end: float
    rejected: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    window_start: float | None = None


class LoadSource(Protocol):
    """One place to read loads from; called from the collector's thread only."""

    def describe(self) -> str:
        """Name the source in messages: type and address, no credential."""
        ...

    def read(self) -> LoadReading:
        """Fetch the loads of all instances.

        Raises:
            LoadError: the source did not answer, or not with loads.
        """
        ...

    def close(self) -> None:
        """Release connections."""
        ...
