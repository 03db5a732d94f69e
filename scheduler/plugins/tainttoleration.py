"""TaintToleration: taints keep pods off nodes, or make nodes less preferred
(plugins/tainttoleration/taint_toleration.go)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler.catalog import ActionType
from scheduler.framework import (
    NODE,
    POD,
    SUCCESS,
    Code,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    FilterPlugin,
    Hint,
    HintRegistration,
    IntArray,
    Locality,
    LocalPlugin,
    NodeInfo,
    NodeView,
    PluginContext,
    PodInfo,
    PreScorePlugin,
    RowArray,
    ScoreNormalizer,
    ScorePlugin,
    Status,
    Verdicts,
    gather_codes,
    part_of,
    reject,
)
from scheduler.helpers import (
    count_untolerated_preferences,
    default_normalize,
    has_untolerated_taint,
    relevant_tolerations,
    untolerated_mask,
)

REASON = "node(s) had untolerated taint(s)"


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin, ScoreNormalizer, EnqueueExtensions, LocalPlugin):
    """Filter and score over taints. Each distinct set of taints is looked at once per attempt, not each node."""

    name = "TaintToleration"

    def __init__(self, args: Any, context: PluginContext) -> None:
        """Take no args."""

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Reject nodes with a NoSchedule or NoExecute taint that is not tolerated."""
        _charge(state, pod, view)
        failed = untolerated_mask(view, rows, pod.spec.tolerations)
        return None if failed is None else reject(failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        """Nothing to prepare; never skipped, so that nodes without taints get 100."""
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return the number of PreferNoSchedule taints that are not tolerated."""
        _charge(state, pod, view)
        column = view.taints
        tolerations = relevant_tolerations(pod.spec.tolerations, column.classes)
        counts = [count_untolerated_preferences(taints, tolerations) for taints in column.classes]
        if not any(counts):
            return np.zeros(len(rows), dtype=np.int64)
        return np.array(counts, dtype=np.int64)[gather_codes(view, column.codes, rows)]

    def normalize(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, scores: IntArray) -> IntArray:
        """Turn many taints into a low score."""
        return default_normalize(scores, reverse=True)

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Verdicts and counts follow from the node's taints."""
        return Locality(DependsOn.NODE, DependsOn.NODE, by_range=True, part=part_of(pod.spec.tolerations))

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Register nodes that are added or lose taints, and tolerations of the pod itself."""
        return (
            HintRegistration(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self._node_changed),
            HintRegistration(POD, ActionType.UPDATE_POD_TOLERATION, self._toleration_changed),
        )

    @staticmethod
    def _node_changed(pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(new, NodeInfo):
            return Hint.QUEUE
        was_untolerated = not isinstance(old, NodeInfo) or has_untolerated_taint(old.taints, pod.spec.tolerations)
        is_tolerated = not has_untolerated_taint(new.taints, pod.spec.tolerations)
        return Hint.QUEUE if was_untolerated and is_tolerated else Hint.SKIP

    @staticmethod
    def _toleration_changed(pod: PodInfo, old: object, new: object) -> Hint:
        return Hint.QUEUE if isinstance(new, PodInfo) and new.uid == pod.uid else Hint.SKIP


def _charge(state: CycleState, pod: PodInfo, view: NodeView) -> None:
    if pod.spec.lists_much:
        state.work.charge(len(pod.spec.tolerations) * (1 + sum(map(len, view.taints.classes))), "tolerations x taints")
