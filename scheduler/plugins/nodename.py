"""NodeName: a pod that names its node runs there and nowhere else (plugins/nodename/node_name.go)."""

from collections.abc import Sequence
from typing import Any

from scheduler import framework as fw
from scheduler.catalog import ActionType

REASON = "node(s) didn't match the requested node name"


class NodeName(fw.FilterPlugin, fw.EnqueueExtensions, fw.FilterRule):
    """Filter on spec.nodeName."""

    name = "NodeName"

    def __init__(self, args: Any, context: fw.PluginContext) -> None:
        """Take no args."""

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject every node but the named one."""
        if not pod.node_name:
            return None
        return fw.reject(rows != view.row(pod.node_name), fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """A pod that names a node is not decided about; all others pass."""
        return fw.Reads.NOTHING

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register new nodes: one of them may have the name."""
        return (fw.HintRegistration(fw.NODE, ActionType.ADD),)
