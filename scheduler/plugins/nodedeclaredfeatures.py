"""NodeDeclaredFeatures: nodes lack features of the kubelet that a pod needs (plugins/nodedeclaredfeatures of 1.36).

What a pod needs follows from its spec alone (`scheduler.helpers.reduce`); a node that declares nothing has none.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler.catalog import ActionType
from scheduler.framework import (
    NODE,
    POD,
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    FilterPlugin,
    Hint,
    HintRegistration,
    Locality,
    LocalPlugin,
    NodeInfo,
    NodeView,
    PluginContext,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    RowArray,
    Status,
    Verdicts,
    part_of,
    reject,
)

REASON = "node(s) didn't match Pod's required features"
_NOTHING = Locality(filters=DependsOn.NOTHING)


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin, EnqueueExtensions, LocalPlugin):
    """Filter on status.declaredFeatures."""

    name = "NodeDeclaredFeatures"

    def __init__(self, args: Any, context: PluginContext) -> None:
        """Take no args."""

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Skip for a pod that needs no feature, as nearly all do."""
        return None, SUCCESS if pod.spec.features else SKIP

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Reject nodes that do not declare every feature."""
        needed = pod.spec.features
        if not needed:
            return None
        lacking = np.array([not needed.issubset(view.info(int(row)).declared_features) for row in rows], dtype=np.bool_)
        return reject(lacking, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Verdicts follow from the node."""
        features = pod.spec.features
        return Locality(filters=DependsOn.NODE, part=part_of(sorted(features))) if features else _NOTHING

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Register nodes that are added or declare other features, and needs of the pod itself that change."""
        return (
            HintRegistration(NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE, self._node_changed),
            HintRegistration(POD, ActionType.UPDATE, self._pod_changed),
        )

    @staticmethod
    def _node_changed(pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(old, NodeInfo) or not isinstance(new, NodeInfo):
            return Hint.QUEUE
        return Hint.SKIP if old.declared_features == new.declared_features else Hint.QUEUE

    @staticmethod
    def _pod_changed(pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(old, PodInfo) or not isinstance(new, PodInfo):
            return Hint.QUEUE
        return Hint.QUEUE if new.uid == pod.uid and old.spec.features != new.spec.features else Hint.SKIP
