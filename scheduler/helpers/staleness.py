"""Which nodes' load is fresh, stale or absent, and what replaces it (`SecondarySchedulerOptions.load`)."""

import numpy as np
from msgspec import Struct

from scheduler.catalog import LoadOptions
from scheduler.framework import (
    BoolArray,
    CycleState,
    FloatArray,
    IntArray,
    LoadColumns,
    NodeView,
    RowArray,
    gather,
    is_fresh,
)
from scheduler.helpers.scoring import round_half_away


def is_load(values: FloatArray) -> BoolArray:
    """Return per value whether it can be a load: a finite number that is not negative."""
    valid: BoolArray = (values >= 0.0) & (values < np.inf)
    return valid


def fresh_rows(view: NodeView, load: LoadColumns, rows: RowArray, max_age: float) -> BoolArray:
    """Return per row whether its sample may be used; see `is_fresh`."""
    return is_fresh(gather(view, load.sampled_at[: view.size], rows), view.now, max_age)


class FreshnessCheck:
    """Tells whether every node has a fresh CPU load. Looks at the nodes once per answer of the source."""

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self._key: tuple[int, int] | None = None
        self._complete = False
        self._oldest = self._newest = 0.0

    def all_fresh(self, view: NodeView, load: LoadColumns) -> bool:
        """Return whether all nodes have a load that is fresh as `fresh_rows` has it."""
        key = (load.version, view.membership)
        if key != self._key:
            sampled = load.sampled_at[view.rows]
            known = sampled[sampled != 0.0]
            # A time that is not known counts as fresh, and so does 0.
            self._oldest, self._newest = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
            self._complete = bool(is_load(load.cpu_last[view.rows]).all())
            self._key = key
        # No other sample becomes stale before the oldest, and none is further ahead than the newest.
        return self._complete and all(
            is_fresh(sampled_at, view.now, self._max_age) for sampled_at in (self._oldest, self._newest)
        )


class LoadDecision(Struct, frozen=True):
    """What each row is scored by: fresh load, an estimate from requests, or nothing. Each row is in exactly one."""

    fresh: BoolArray
    estimated: BoolArray
    left_out: BoolArray

    @property
    def scored(self) -> bool:
        """Whether any row gets a score of its own."""
        return bool(self.fresh.any() or self.estimated.any())


class StalenessPolicy:
    """The policy of one plugin in `safe` mode.

    Counters: `load_stale/PLUGIN` and `load_absent/PLUGIN` (nodes), `load_left_out/PLUGIN` (attempts without it).
    """

    def __init__(self, plugin: str, options: LoadOptions) -> None:
        self._plugin = plugin
        self.max_age = float(options.max_age_seconds)
        self._estimate_stale = options.when_stale == "requests"
        self._estimate_absent = options.when_absent == "requests"
        self._estimate_all = options.when_none_fresh == "requests"

    def decide(
        self, state: CycleState, fresh: BoolArray, valid: BoolArray, *, other_resource_fresh: bool = False
    ) -> LoadDecision:
        """Decide per row.

        Args:
            state: where stale and absent nodes are counted.
            fresh: rows with a fresh measurement.
            valid: rows with a measurement of any age.
            other_resource_fresh: another resource has a fresh measurement on some row, so that rows can be compared
                even where this resource has none.
        """
        if fresh.all():
            none = np.zeros_like(fresh)
            return LoadDecision(fresh, none, none)
        stale, absent = valid & ~fresh, ~valid & ~fresh
        state.count(f"load_stale/{self._plugin}", int(np.count_nonzero(stale)))
        state.count(f"load_absent/{self._plugin}", int(np.count_nonzero(absent)))
        if other_resource_fresh or fresh.any():
            estimated = (stale & self._estimate_stale) | (absent & self._estimate_absent)
        else:
            estimated = np.full_like(fresh, self._estimate_all)
        return LoadDecision(fresh, estimated, ~fresh & ~estimated)

    def decide_without_source(self, state: CycleState, rows: RowArray) -> LoadDecision:
        """Decide for a source that has not answered yet."""
        none = np.zeros(len(rows), dtype=np.bool_)
        return self.decide(state, none, none)

    def count_left_out(self, state: CycleState) -> None:
        """Count an attempt in which the plugin gives no score."""
        state.count(f"load_left_out/{self._plugin}")


def fill_with_mean(scores: IntArray, left_out: BoolArray) -> IntArray:
    """Return the scores in which rows that are left out have the rounded mean of the others.

    A score of 0 would make them the worst; with the mean the plugin neither prefers nor avoids them.
    """
    if not left_out.any():
        return scores
    mean = round_half_away(np.array([scores[~left_out].mean()]))
    return np.where(left_out, mean.astype(np.int64)[0], scores)
