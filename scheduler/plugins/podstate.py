"""PodState: prefer nodes that are about to have room (scheduler-plugins v0.34.7, pkg/podstate)."""

from typing import Any

import numpy as np

from scheduler import framework as fw
from scheduler.helpers import min_max_normalize

_EVERYONE = fw.PodQuery(())
_STAYING = fw.PodQuery((), alive=True)


class PodState(fw.ScorePlugin, fw.ScoreNormalizer):
    """Scores the pods that are being deleted on a node, less the pods that are nominated to it.

    In `safe` mode the pod's own nomination does not count: it speaks for that node, not against it.
    """

    name = "PodState"

    def __init__(self, args: Any, context: fw.PluginContext) -> None:
        """Take no args."""
        self._upstream = context.upstream

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return terminating pods minus nominated pods."""
        scores = (view.pods_by_node(_EVERYONE) - view.pods_by_node(_STAYING)).astype(np.int64)
        for node, nominated in view.nominations.items():
            row = view.row(node)
            if row >= 0:
                scores[row] -= sum(self._upstream or nominee.uid != pod.uid for nominee in nominated)
        return scores[rows]

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Stretch the scores to 0..100; nodes that are all alike get 0."""
        return min_max_normalize(scores)
