"""NodeDeclaredFeatures: nodes lack features of the kubelet that a pod needs (plugins/nodedeclaredfeatures of 1.36).

What a pod needs follows from its spec alone (`scheduler.helpers.reduce`); a node that declares nothing has none.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import ActionType

REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures(fw.PreFilterPlugin, fw.FilterPlugin, fw.EnqueueExtensions, fw.FilterRule):
    """Filter on status.declaredFeatures."""

    name = "NodeDeclaredFeatures"

    def __init__(self, args: Any, context: fw.PluginContext) -> None:
        """Take no args."""

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Skip for a pod that needs no feature, as nearly all do."""
        return None, fw.SUCCESS if pod.spec.features else fw.SKIP

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes that do not declare every feature."""
        needed = pod.spec.features
        if not needed:
            return None
        lacking = np.array([not needed.issubset(view.info(int(row)).declared_features) for row in rows], dtype=np.bool_)
        return fw.reject(lacking, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Verdicts follow from the node."""
        return fw.Reads.NODE if spec.features else fw.Reads.NOTHING

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register nodes that are added or declare other features, and needs of the pod itself that change."""
        return (
            fw.HintRegistration(fw.NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE, self._node_changed),
            fw.HintRegistration(fw.POD, ActionType.UPDATE, self._pod_changed),
        )

    @staticmethod
    def _node_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(old, fw.NodeInfo) or not isinstance(new, fw.NodeInfo):
            return fw.Hint.QUEUE
        return fw.Hint.SKIP if old.declared_features == new.declared_features else fw.Hint.QUEUE

    @staticmethod
    def _pod_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(old, fw.PodInfo) or not isinstance(new, fw.PodInfo):
            return fw.Hint.QUEUE
        return fw.Hint.QUEUE if new.uid == pod.uid and old.spec.features != new.spec.features else fw.Hint.SKIP
