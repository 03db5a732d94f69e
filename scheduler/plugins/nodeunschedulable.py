"""NodeUnschedulable: cordoned nodes take no pods but those that tolerate it (plugins/nodeunschedulable)."""

from collections.abc import Sequence
from typing import Any

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.helpers import UNSCHEDULABLE_TAINT, tolerated

REASON = "node(s) were unschedulable"


class NodeUnschedulable(fw.FilterPlugin, fw.EnqueueExtensions, fw.FilterRule):
    """Filter on spec.unschedulable."""

    name = "NodeUnschedulable"

    def __init__(self, args: Any, context: fw.PluginContext) -> None:
        """Take no args."""

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject cordoned nodes."""
        column = view.unschedulable
        cordoned = column if rows is view.rows and view.dense else column[rows]
        if not cordoned.any() or tolerated(pod.spec.tolerations, UNSCHEDULABLE_TAINT):
            return None
        return fw.reject(cordoned, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Verdicts follow from the node."""
        return fw.Reads.NODE

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register nodes that are added or uncordoned, and tolerations of the pod itself."""
        return (
            fw.HintRegistration(fw.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self._node_changed),
            fw.HintRegistration(fw.POD, ActionType.UPDATE_POD_TOLERATION, self._toleration_changed),
        )

    @staticmethod
    def _node_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(new, fw.NodeInfo):
            return fw.Hint.QUEUE
        was_cordoned = not isinstance(old, fw.NodeInfo) or old.unschedulable
        return fw.Hint.QUEUE if was_cordoned and not new.unschedulable else fw.Hint.SKIP

    @staticmethod
    def _toleration_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(new, fw.PodInfo) or new.uid != pod.uid:
            return fw.Hint.SKIP
        return fw.Hint.QUEUE if tolerated(new.spec.tolerations, UNSCHEDULABLE_TAINT) else fw.Hint.SKIP
