"""What `compatibility: upstream` changes in TargetLoadPacking: pkg/trimaran/targetloadpacking of scheduler-plugins
0.34.7 as it is."""

import numpy as np

from scheduler.framework import (
    BoolArray,
    CycleState,
    IntArray,
    Locality,
    NodeView,
    PodInfo,
    RowArray,
    SpecInfo,
    gather,
)
from scheduler.plugins.targetloadpacking.formula import predicted_of_container, utilization_after
from scheduler.plugins.targetloadpacking.plugin import NAME, TargetLoadPacking


def predicted_of_main_containers(spec: SpecInfo, multiplier: float, default_request: int) -> int:
    """Return the milli-units of CPU that upstream predicts (PredictUtilisation): sidecars and resources of the pod as
    a whole do not count."""
    main = (container for container in spec.containers if container.kind == "app")
    return spec.overhead.get("cpu", 0) + sum(
        predicted_of_container(container, multiplier, default_request) for container in main
    )


class UpstreamTargetLoadPacking(TargetLoadPacking):
    """A node without load scores 0, no load grows old, and a pod's prediction is that of its main containers."""

    _prediction = staticmethod(predicted_of_main_containers)

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return 0..100 per row."""
        load = view.load(self._source)
        measured = np.full(len(rows), np.nan) if load is None else gather(view, load.cpu_last[: view.size], rows)
        known: BoolArray = np.isfinite(measured)
        state.count(f"load_absent/{NAME}", int(np.count_nonzero(~known)))
        if load is None or not known.any():
            return np.zeros(len(rows), dtype=np.int64)
        capacity, demand = gather(view, view.capacity_cpu, rows), float(self.predict(pod.spec))
        used = np.where(known, measured, 0.0) / 100.0 * capacity
        missing = gather(view, self._unmeasured.by_row(view, load), rows)
        scores = self._packing(utilization_after(used + demand, missing, capacity))
        return np.where(known, scores, 0)

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Ask in every attempt: which pods the measurement misses depends on the clock of this process."""
        return Locality()
