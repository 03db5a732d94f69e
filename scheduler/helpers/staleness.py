"""Which nodes' load is fresh, stale or absent, and what stands in for it (`SecondarySchedulerOptions.load`)."""

from dataclasses import dataclass

import numpy as np

from scheduler.catalog import LoadOptions
from scheduler.framework import BoolArray, CycleState, FloatArray, IntArray, LoadColumns, NodeView, RowArray, gather
from scheduler.helpers.scoring import round_half_away


def is_load(values: FloatArray) -> BoolArray:
    """Tell per value whether it can be a load: a number that is not negative."""
    valid: BoolArray = (values >= 0.0) & (values < np.inf)
    return valid


def young(view: NodeView, load: LoadColumns, rows: RowArray, max_age: float) -> BoolArray:
    """Tell per row whether its sample is young enough; a source that gives no time at all counts as fresh."""
    sampled = gather(view, load.sampled_at[: view.size], rows)
    sampled = np.where(sampled == 0.0, load.timestamp, sampled)
    found: BoolArray = (sampled == 0.0) | (view.now - sampled <= max_age)
    return found


class Freshness:
    """Tells whether every node's CPU load is there and young enough; looks at the nodes once per answer of the
    source."""

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self._known: tuple[int, int] | None = None
        self._complete = False
        self._oldest = 0.0

    def everywhere(self, view: NodeView, load: LoadColumns) -> bool:
        """Return whether all nodes are `young` and have a load."""
        key = (load.version, view.membership)
        if key != self._known:
            sampled = load.sampled_at[view.rows]
            sampled = np.where(sampled == 0.0, load.timestamp, sampled)
            self._oldest = float(np.min(sampled, where=sampled != 0.0, initial=np.inf))
            self._complete = bool(is_load(load.cpu_last[view.rows]).all())
            self._known = key
        # In the operations of `young`: the oldest sample is too old before any other.
        return self._complete and view.now - self._oldest <= self._max_age


@dataclass(frozen=True, slots=True)
class Standing:
    """How it stands with the rows' load: measured and fresh, estimated by requests, or left out."""

    fresh: BoolArray
    estimated: BoolArray
    left_out: BoolArray

    @property
    def scored(self) -> bool:
        """Whether any row gets a score of its own."""
        return bool(self.fresh.any() or self.estimated.any())


class Staleness:
    """The policy of one plugin in `safe` mode.

    Counters: `load_stale/PLUGIN` and `load_absent/PLUGIN` (nodes), `load_left_out/PLUGIN` (attempts without it).
    """

    def __init__(self, plugin: str, options: LoadOptions) -> None:
        self._plugin = plugin
        self.max_age = float(options.max_age_seconds)
        self._estimate_stale = options.when_stale == "requests"
        self._estimate_absent = options.when_absent == "requests"
        self._estimate_all = options.when_none_fresh == "requests"

    def judge(self, state: CycleState, fresh: BoolArray, valid: BoolArray, *, beside: bool = False) -> Standing:
        """Decide per row.

        Args:
            state: where nodes are counted.
            fresh: rows with a measurement that is young enough.
            valid: rows with a measurement of any age.
            beside: another resource is fresh somewhere, so that this one need not be for the rows to be compared.
        """
        if fresh.all():
            none = np.zeros_like(fresh)
            return Standing(fresh, none, none)
        stale, absent = valid & ~fresh, ~valid & ~fresh
        state.count(f"load_stale/{self._plugin}", int(np.count_nonzero(stale)))
        state.count(f"load_absent/{self._plugin}", int(np.count_nonzero(absent)))
        if beside or fresh.any():
            estimated = (stale & self._estimate_stale) | (absent & self._estimate_absent)
        else:
            estimated = np.full_like(fresh, self._estimate_all)
        return Standing(fresh, estimated, ~fresh & ~estimated)

    def without_source(self, state: CycleState, rows: RowArray) -> Standing:
        """Decide where the source has given nothing yet."""
        none = np.zeros(len(rows), dtype=np.bool_)
        return self.judge(state, none, none)

    def leave_out(self, state: CycleState) -> None:
        """Count an attempt in which the plugin gives no score."""
        state.count(f"load_left_out/{self._plugin}")


def neutral(scores: IntArray, left_out: BoolArray) -> IntArray:
    """Return the scores with those of rows that are left out replaced by the mean of the others.

    So the plugin neither favours nor disfavours such a node, which a score of 0 would.
    """
    if not left_out.any():
        return scores
    mean = round_half_away(np.array([scores[~left_out].mean()]))
    return np.where(left_out, mean.astype(np.int64)[0], scores)
