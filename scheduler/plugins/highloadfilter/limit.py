"""The limit itself, as upstream's proposal and ours have it in common: predicted shares against thresholds.

All shares are per cent, NaN where the use is not measured.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler.catalog import HighLoadFilterArgs
from scheduler.framework import BoolArray, Code, CodeArray, FloatArray, IntArray, LoadColumns, NodeView, is_fresh

NAME = "HighLoadFilter"
UNAVAILABLE = "node real-load metrics are unavailable"
STALE = "node real-load metrics are stale"
CPU_EXCEEDS = "node predicted CPU utilization exceeds the HighLoadFilter threshold"
MEMORY_EXCEEDS = "node predicted memory utilization exceeds the HighLoadFilter threshold"
"""Upstream's texts."""
REASONS = (CPU_EXCEEDS, MEMORY_EXCEEDS, STALE, UNAVAILABLE)


class Share(NamedTuple):
    """The predicted shares of both resources, by row."""

    cpu: FloatArray
    memory: FloatArray


def predicted(measured: FloatArray, amount: FloatArray | float, allocatable: FloatArray) -> FloatArray:
    """Return the predicted share: measured plus an amount, of what can be allocated (predictedUsage).

    Any amount of what a node has none of is infinitely much.
    """
    if allocatable.all():
        return measured + 100.0 * amount / allocatable
    some = np.where(allocatable > 0.0, allocatable, 1.0)
    beyond = np.where(np.asarray(amount) > 0.0, np.inf, 0.0)
    return np.where(np.isnan(measured), np.nan, measured + np.where(allocatable > 0.0, 100.0 * amount / some, beyond))


def predicted_of_node(measured: float, amount: float, allocatable: float) -> float:
    """Return `predicted` of one node."""
    if allocatable > 0.0 or measured != measured:
        return measured + 100.0 * amount / (allocatable or 1.0)
    return np.inf if amount > 0.0 else measured


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limit, and what happens where nothing is known."""

    cpu: float
    memory: float
    fail_open: bool

    @classmethod
    def of(cls, args: HighLoadFilterArgs) -> "Thresholds":
        """Return the thresholds of some args."""
        return cls(float(args.usage_thresholds.cpu), float(args.usage_thresholds.memory), args.fail_open)

    def bits(self, share: Share, is_stale: BoolArray) -> IntArray:
        """Return, per row, the one reason for which it is rejected as a bit of `REASONS`; 0 for none.

        Upstream's order: what is measured is judged before anything is missed.
        """
        bits = np.zeros(len(share.cpu), dtype=np.int64)
        if not self.fail_open:
            missing = np.isnan(share.cpu) | np.isnan(share.memory)
            bits[missing] = np.where(is_stale[missing], 4, 8)
        bits[share.memory > self.memory] = 2
        bits[share.cpu > self.cpu] = 1
        return bits

    def passes(self, cpu: float, memory: float) -> bool:
        """Return whether a node with these shares is not rejected."""
        if cpu > self.cpu or memory > self.memory:
            return False
        return self.fail_open or (cpu == cpu and memory == memory)


def codes_of(bits: IntArray, code: Code) -> CodeArray:
    """Return the code of each row that has a reason."""
    codes: CodeArray = (bits != 0).astype(np.int8) * np.int8(code)
    return codes


class Ageing:
    """Counts the nodes whose measurement is fresh; looks at all of them only when one may have become too old."""

    def __init__(self, max_age: float) -> None:
        self.max_age = max_age
        self._key = (-1, -1)
        self._seen_at = 0.0
        self._oldest = 0.0
        self._fresh = 0

    def fresh_count(self, view: NodeView, load: LoadColumns) -> int:
        """Return the number of nodes with a fresh measurement: of one answer of the source, it tells which they are."""
        key = (load.version, view.membership)
        if key != self._key or view.now < self._seen_at or view.now - self._oldest > self.max_age:
            sampled = load.sampled_at[view.rows]
            fresh = is_sampled(sampled, view.now, self.max_age)
            self._fresh = int(np.count_nonzero(fresh))
            self._oldest = float(np.min(sampled, where=fresh, initial=np.inf))
            self._key, self._seen_at = key, view.now
        return self._fresh


def is_sampled(sampled_at: FloatArray, now: float, max_age: float) -> BoolArray:
    """Return whether samples may be used. Unlike elsewhere, a time that is not known is none: upstream's proposal takes
    an answer without a timestamp for unavailable."""
    sampled: BoolArray = (sampled_at > 0.0) & is_fresh(sampled_at, now, max_age)
    return sampled
