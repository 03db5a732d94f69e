"""NodeResourcesAllocatable: prefer small nodes, or large ones (scheduler-plugins v0.34.7, pkg/noderesources)."""

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import NodeResourcesAllocatableArgs
from scheduler.helpers import go_divide, min_max_normalize
from scheduler.kube.primitives import INT64_MAX


class NodeResourcesAllocatable(fw.ScorePlugin, fw.ScoreNormalizer):
    """Scores what nodes have, whatever is used of it and whatever the pod wants. A resource a node lacks counts 0."""

    name = "NodeResourcesAllocatable"

    def __init__(self, args: NodeResourcesAllocatableArgs, context: fw.PluginContext) -> None:
        """Raises ValueError for weights that int64 cannot add up; upstream would divide by whatever comes out."""
        # Of a resource that is listed twice the last weight counts.
        self._weights = {resource.name: resource.weight for resource in args.resources}
        self._sign = 1 if args.mode == "Most" else -1
        self._weighted_sum = sum(self._weights.values())
        if self._weighted_sum > INT64_MAX:
            raise ValueError(f"resources: the weights add up to {self._weighted_sum}, which is beyond 64 bits")

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return the weighted mean of allocatable amounts (cpu in milli-units), negative in mode Least."""
        total = np.zeros(len(rows), dtype=np.int64)
        for resource, weight in self._weights.items():
            # Amounts are whole numbers that float64 holds exactly up to 8 PiB; products wrap around as Go's.
            total += fw.gather(view, view.allocatable(resource), rows).astype(np.int64) * weight
        return go_divide(total * self._sign, np.full(1, self._weighted_sum, dtype=np.int64))

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Stretch the scores to 0..100; nodes that are all alike get 0."""
        return min_max_normalize(scores)
