"""TaintToleration: taints keep pods off nodes, or make nodes less preferred
(plugins/tainttoleration/taint_toleration.go)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.helpers import (
    count_untolerated_preferences,
    default_normalize,
    has_untolerated_taint,
    relevant_tolerations,
    untolerated_mask,
)

REASON = "node(s) had untolerated taint(s)"


class TaintToleration(
    fw.FilterPlugin,
    fw.PreScorePlugin,
    fw.ScorePlugin,
    fw.ScoreNormalizer,
    fw.EnqueueExtensions,
    fw.FilterRule,
    fw.ScoreRule,
):
    """Filter and score over taints. Each distinct set of taints is looked at once per attempt, not each node."""

    name = "TaintToleration"

    def __init__(self, args: Any, context: fw.PluginContext) -> None:
        """Take no args."""

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes with a NoSchedule or NoExecute taint that is not tolerated."""
        _charge(state, pod, view)
        failed = untolerated_mask(view, rows, pod.spec.tolerations)
        return None if failed is None else fw.reject(failed, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def pre_score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Status:
        """Nothing to prepare; never skipped, so that nodes without taints get 100."""
        return fw.SUCCESS

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return the number of PreferNoSchedule taints that are not tolerated."""
        _charge(state, pod, view)
        column = view.taints
        tolerations = relevant_tolerations(pod.spec.tolerations, column.classes)
        counts = [count_untolerated_preferences(taints, tolerations) for taints in column.classes]
        if not any(counts):
            return np.zeros(len(rows), dtype=np.int64)
        return np.array(counts, dtype=np.int64)[fw.gather_codes(view, column.codes, rows)]

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Turn many taints into a low score."""
        return default_normalize(scores, reverse=True)

    by_range = True

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Verdicts follow from the node's taints."""
        return fw.Reads.NODE

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Counts follow from the node's taints."""
        return fw.Reads.NODE

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register nodes that are added or lose taints, and tolerations of the pod itself."""
        return (
            fw.HintRegistration(fw.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self._node_changed),
            fw.HintRegistration(fw.POD, ActionType.UPDATE_POD_TOLERATION, self._toleration_changed),
        )

    @staticmethod
    def _node_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(new, fw.NodeInfo):
            return fw.Hint.QUEUE
        was_untolerated = not isinstance(old, fw.NodeInfo) or has_untolerated_taint(old.taints, pod.spec.tolerations)
        is_tolerated = not has_untolerated_taint(new.taints, pod.spec.tolerations)
        return fw.Hint.QUEUE if was_untolerated and is_tolerated else fw.Hint.SKIP

    @staticmethod
    def _toleration_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        return fw.Hint.QUEUE if isinstance(new, fw.PodInfo) and new.uid == pod.uid else fw.Hint.SKIP


def _charge(state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView) -> None:
    if pod.spec.lists_much:
        state.work.charge(len(pod.spec.tolerations) * (1 + sum(map(len, view.taints.classes))), "tolerations x taints")
