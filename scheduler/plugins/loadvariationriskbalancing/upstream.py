"""What `compatibility: upstream` changes in LoadVariationRiskBalancing: pkg/trimaran/loadvariationriskbalancing of
scheduler-plugins 0.34.7 as it is."""

import numpy as np

from scheduler.framework import CycleState, IntArray, NodeView, PodInfo, RowArray, gather
from scheduler.helpers import round_half_away
from scheduler.helpers.loadstats import measured_upstream, resource_stats
from scheduler.helpers.upstreamsums import upstream_requests
from scheduler.plugins.loadvariationriskbalancing.formula import balance_score
from scheduler.plugins.loadvariationriskbalancing.plugin import NAME, UNITS, LoadVariationRiskBalancing


class UpstreamLoadVariationRiskBalancing(LoadVariationRiskBalancing):
    """A node without load scores 0; one figure of two suffices; pods placed since the measurement do not count, and
    what the pod requests is upstream's sum."""

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return 0..100 per row."""
        load = view.load(self._source)
        requests = {resource: upstream_requests(pod.spec).get(resource, 0) for resource in UNITS}
        if load is None:
            state.count(f"load_absent/{NAME}", len(rows))
            return np.zeros(len(rows), dtype=np.int64)
        scores, known = [], []
        for resource, amount in requests.items():
            seen = measured_upstream(*self._figures(resource, view, load, rows))
            capacity = gather(view, view.allocatable(resource), rows) * UNITS[resource]
            stats = resource_stats(seen.average, seen.deviation, capacity, amount * UNITS[resource])
            scores.append(np.where(seen.known, balance_score(stats, self._margin, self._sensitivity), 0.0))
            known.append(seen.known)
        state.count(f"load_absent/{NAME}", int(np.count_nonzero(~(known[0] | known[1]))))
        exact = np.where(known[0] & known[1], np.minimum(*scores), np.maximum(*scores))
        return round_half_away(exact).astype(np.int64)
