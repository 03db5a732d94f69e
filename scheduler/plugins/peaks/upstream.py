"""What `compatibility: upstream` changes in Peaks: pkg/trimaran/peaks of scheduler-plugins 0.34.7 as it is."""

import numpy as np

from scheduler.catalog import PeaksArgs
from scheduler.framework import (
    BoolArray,
    CycleState,
    IntArray,
    NodeView,
    PluginContext,
    PodInfo,
    RowArray,
    ScoreNormalizer,
    ScorePlugin,
    gather,
)
from scheduler.helpers.goexp import go_exp
from scheduler.plugins.peaks.model import go_int64, normalize_scores, power_jump
from scheduler.plugins.peaks.plugin import NAME, Peaks, utilization


class UpstreamPeaks(Peaks):
    """A node without load or model, or that would be overfull, scores 0 before normalisation: the best there is."""

    def __init__(self, args: PeaksArgs, context: PluginContext) -> None:
        super().__init__(args, context)
        # Upstream reads the file into a map it then loses, unless the args gave one.
        if not args.node_power_model and "node_power_model" not in args.model_fields_set:
            self._models = {}

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return the growth of power per row, times 10^15."""
        load = view.load(self._source)
        models = self._models_by_row(view)
        k1, k2 = models[0].take(rows), models[1].take(rows)
        measured = np.full(len(rows), np.nan) if load is None else gather(view, load.cpu_first[: view.size], rows)
        capacity = gather(view, view.capacity_cpu, rows)
        demand = float(pod.spec.declared.peak_cpu)
        known: BoolArray = np.isfinite(measured)
        before = np.where(known, measured, 0.0)
        after = utilization(before / 100.0 * capacity + demand, capacity)
        counted = known & ~(after > 100.0)
        state.count(f"load_absent/{NAME}", int(np.count_nonzero(~known)))
        return np.where(counted, go_int64(power_jump(k1, k2, before, after, go_exp)), 0)

    def normalize(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, scores: IntArray) -> IntArray:
        """Turn the least growth into 100 and the largest into 0."""
        return normalize_scores(scores)


# Checked by mypy: the extension points of the descriptor, and the optional Protocols that the framework looks for.
_SCORE: type[ScorePlugin] = UpstreamPeaks
_SCORE_NORMALIZER: type[ScoreNormalizer] = UpstreamPeaks
