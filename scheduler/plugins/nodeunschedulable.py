"""NodeUnschedulable: cordoned nodes take no pods but those that tolerate it (plugins/nodeunschedulable)."""

from collections.abc import Sequence
from typing import Any

from scheduler.catalog import ActionType
from scheduler.framework import (
    NODE,
    POD,
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
    RowArray,
    Verdicts,
    reject,
)
from scheduler.helpers import UNSCHEDULABLE_TAINT, tolerated

REASON = "node(s) were unschedulable"


class NodeUnschedulable(FilterPlugin, EnqueueExtensions, LocalPlugin):
    """Filter on spec.unschedulable."""

    name = "NodeUnschedulable"

    def __init__(self, args: Any, context: PluginContext) -> None:
        """Take no args."""

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Reject cordoned nodes."""
        column = view.unschedulable
        cordoned = column if rows is view.rows and view.dense else column[rows]
        if not cordoned.any() or tolerated(pod.spec.tolerations, UNSCHEDULABLE_TAINT):
            return None
        return reject(cordoned, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Verdicts follow from the node."""
        tolerant = tolerated(pod.spec.tolerations, UNSCHEDULABLE_TAINT)
        return Locality(filters=DependsOn.NOTHING if tolerant else DependsOn.NODE, part=b"")

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Register nodes that are added or uncordoned, and tolerations of the pod itself."""
        return (
            HintRegistration(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self._node_changed),
            HintRegistration(POD, ActionType.UPDATE_POD_TOLERATION, self._toleration_changed),
        )

    @staticmethod
    def _node_changed(pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(new, NodeInfo):
            return Hint.QUEUE
        was_cordoned = not isinstance(old, NodeInfo) or old.unschedulable
        return Hint.QUEUE if was_cordoned and not new.unschedulable else Hint.SKIP

    @staticmethod
    def _toleration_changed(pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(new, PodInfo) or new.uid != pod.uid:
            return Hint.SKIP
        return Hint.QUEUE if tolerated(new.spec.tolerations, UNSCHEDULABLE_TAINT) else Hint.SKIP
