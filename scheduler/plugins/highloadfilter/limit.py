"""The limit itself, as upstream's proposal and ours have it in common: predicted shares against thresholds.

All shares are per cent, NaN where the use is not measured.
"""

from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from scheduler import framework as fw
from scheduler.catalog import HighLoadFilterArgs
from scheduler.helpers.staleness import is_load

NAME = "HighLoadFilter"
UNAVAILABLE = "node real-load metrics are unavailable"
STALE = "node real-load metrics are stale"
CPU_EXCEEDS = "node predicted CPU utilization exceeds the HighLoadFilter threshold"
MEMORY_EXCEEDS = "node predicted memory utilization exceeds the HighLoadFilter threshold"
"""Upstream's texts."""
REASONS = (CPU_EXCEEDS, MEMORY_EXCEEDS, STALE, UNAVAILABLE)


class Share(NamedTuple):
    """The predicted shares of both resources, by row."""

    cpu: fw.FloatArray
    memory: fw.FloatArray


def predicted(measured: Any, amount: Any, allocatable: Any) -> Any:
    """Return the predicted share: measured plus an amount, of what can be allocated (predictedUsage).

    Any amount of what a node has none of is infinitely much.
    """
    if isinstance(allocatable, float):
        if allocatable > 0.0:
            return measured + 100.0 * amount / allocatable
        return measured + (np.inf if amount > 0.0 else 0.0)
    if allocatable.all():
        return measured + 100.0 * amount / allocatable
    divisor = np.where(allocatable > 0.0, allocatable, 1.0)
    beyond = np.where(np.asarray(amount) > 0.0, np.inf, 0.0)
    return np.where(
        np.isnan(measured), np.nan, measured + np.where(allocatable > 0.0, 100.0 * amount / divisor, beyond)
    )


class Thresholds(Struct, frozen=True):
    """The limit, and what happens where nothing is known."""

    cpu: float
    memory: float
    fail_open: bool

    @classmethod
    def of(cls, args: HighLoadFilterArgs) -> "Thresholds":
        """Return the thresholds of some args."""
        return cls(float(args.usage_thresholds.cpu), float(args.usage_thresholds.memory), args.fail_open)

    def bits(self, share: Share, is_stale: fw.BoolArray) -> fw.IntArray:
        """Return, per row, the one reason for which it is rejected as a bit of `REASONS`; 0 for none.

        Upstream's order: what is measured is judged before anything is missed.
        """
        over_cpu, over_memory, *missing = self.masks(share.cpu, share.memory)
        bits = np.zeros(len(over_cpu), dtype=np.int64)
        for mask in missing:
            bits[mask] = np.where(is_stale[mask], 4, 8)
        bits[over_memory] = 2
        bits[over_cpu] = 1
        return bits

    def masks(self, cpu: Any, memory: Any) -> tuple[Any, ...]:
        """Return where these shares exceed the threshold of cpu, and of memory; and where one is not known, if that is
        a reason."""
        over = (cpu > self.cpu, memory > self.memory)
        return over if self.fail_open else (*over, (cpu != cpu) | (memory != memory))


def codes_of(bits: fw.IntArray, code: fw.Code) -> fw.CodeArray:
    """Return the code of each row that has a reason."""
    codes: fw.CodeArray = (bits != 0).astype(np.int8) * np.int8(code)
    return codes


class Usable(NamedTuple):
    """What of one answer of a source may be used, by row of the view: shares, NaN where there is none; which rows have
    samples that are too old; how many do not, which tells which they are."""

    cpu: fw.FloatArray
    memory: fw.FloatArray
    is_stale: fw.BoolArray
    fresh: int


class Ageing:
    """Sorts out what may be used of a load; looks at all nodes only at a new answer, or when a sample gets too old."""

    def __init__(self, max_age: float) -> None:
        self.max_age = max_age
        self._key = (-1, -1)
        self._load: fw.LoadColumns | None = None
        self._seen_at = 0.0
        self._oldest = 0.0
        self._usable: Usable | None = None

    def usable(self, view: fw.NodeView, load: fw.LoadColumns) -> Usable:
        """Return what may be used at the view's time."""
        key = (view.membership, view.size)
        usable = self._usable
        is_known = load is self._load and key == self._key
        # No other sample gets too old before the oldest; a clock that is set back makes samples fresh again.
        if usable is None or not is_known or view.now < self._seen_at or self._is_over(view.now):
            usable = self._usable = self._look(view, load)
            self._load, self._key, self._seen_at = load, key, view.now
        return usable

    def _is_over(self, now: float) -> bool:
        return now - self._oldest > self.max_age

    def _look(self, view: fw.NodeView, load: fw.LoadColumns) -> Usable:
        size = view.size
        sampled_at = load.sampled_at[:size]
        fresh = is_sampled(sampled_at, view.now, self.max_age)
        self._oldest = float(np.min(sampled_at, where=fresh, initial=np.inf))
        cpu, memory = (
            np.where(fresh & is_load(measured[:size]), measured[:size], np.nan)
            for measured in (load.cpu_average, load.memory_average)
        )
        return Usable(cpu, memory, ~fresh & (sampled_at > 0.0), int(np.count_nonzero(fresh)))


def is_sampled(sampled_at: fw.FloatArray, now: float, max_age: float) -> fw.BoolArray:
    """Return whether samples may be used. Unlike elsewhere, a time that is not known is none: upstream's proposal takes
    an answer without a timestamp for unavailable."""
    sampled: fw.BoolArray = (sampled_at > 0.0) & fw.is_fresh(sampled_at, now, max_age)
    return sampled
