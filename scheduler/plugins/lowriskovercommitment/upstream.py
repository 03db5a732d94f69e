"""What `compatibility: upstream` changes in LowRiskOverCommitment: pkg/trimaran/lowriskovercommitment of
scheduler-plugins 0.34.7 as it is."""

import numpy as np

from scheduler.framework import (
    CycleState,
    FloatArray,
    IntArray,
    LoadColumns,
    NodeView,
    PodAmount,
    PodInfo,
    RowArray,
)
from scheduler.helpers import round_half_away
from scheduler.helpers.loadstats import Measured, measured_upstream
from scheduler.helpers.unmeasured import UnmeasuredUse
from scheduler.helpers.upstreamsums import upstream_amounts
from scheduler.plugins.lowriskovercommitment.plugin import NAME, LowRiskOverCommitment, gather_mask


class UpstreamLowRiskOverCommitment(LowRiskOverCommitment):
    """A node without load scores 0; one resource without load counts as without load risk; pods placed since the
    measurement do not count, and what pods request is upstream's sum."""

    def _counted(self, resource: str) -> tuple[PodAmount, PodAmount]:
        return upstream_amounts(resource)

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return 0..100 per row."""
        if not self._limits_anything(pod):
            return np.zeros(len(rows), dtype=np.int64)
        load = view.load(self._source)
        seen = {name: self._measured(name, view, load) for name in self._weights}
        known = {name: gather_mask(view, measured.known, rows) for name, measured in seen.items()}
        blind = ~(known["cpu"] | known["memory"])
        state.count(f"load_absent/{NAME}", int(np.count_nonzero(blind)))
        if blind.all():
            return np.zeros(len(rows), dtype=np.int64)
        risks = [self._risk(name, pod, view, load, seen[name], known[name], rows) for name in self._weights]
        scores = round_half_away((1.0 - np.maximum(*risks)) * 100.0).astype(np.int64)
        return np.where(blind, 0, scores)

    def _measured_figures(
        self, average: FloatArray, deviation: FloatArray, view: NodeView, load: LoadColumns
    ) -> Measured:
        return measured_upstream(average, deviation)

    def _recent_use(self, unmeasured: UnmeasuredUse, view: NodeView, load: LoadColumns) -> float:
        return 0.0

    def _unknown_load_risk(self, by_limits: FloatArray) -> float:
        return 0.0
