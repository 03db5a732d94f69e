"""PodState: prefer nodes that are about to have room (scheduler-plugins v0.34.7, pkg/podstate)."""

from typing import Any

import numpy as np

from scheduler.framework import (
    CycleState,
    IntArray,
    NodeView,
    PluginContext,
    PodInfo,
    PodQuery,
    RowArray,
    ScoreNormalizer,
    ScorePlugin,
)
from scheduler.helpers import min_max_normalize

_EVERYONE = PodQuery(())
_STAYING = PodQuery((), alive=True)


class PodState(ScorePlugin, ScoreNormalizer):
    """Scores the pods that are being deleted on a node, less the pods that are nominated to it.

    In `safe` mode the pod's own nomination does not count: it speaks for that node, not against it.
    """

    name = "PodState"

    def __init__(self, args: Any, context: PluginContext) -> None:
        """Take no args."""
        self._upstream = context.upstream

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return terminating pods minus nominated pods."""
        scores = (view.pods_by_node(_EVERYONE) - view.pods_by_node(_STAYING)).astype(np.int64)
        for node, nominated in view.nominations.items():
            row = view.row(node)
            if row >= 0:
                scores[row] -= sum(self._upstream or nominee.uid != pod.uid for nominee in nominated)
        return scores[rows]

    def normalize(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, scores: IntArray) -> IntArray:
        """Stretch the scores to 0..100; nodes that are all alike get 0."""
        return min_max_normalize(scores)
