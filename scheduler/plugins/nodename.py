"""NodeName: a pod that names its node runs there and nowhere else (plugins/nodename/node_name.go)."""

from collections.abc import Sequence
from typing import Any

from scheduler import framework as fw
from scheduler.catalog import ActionType

REASON = "node(s) didn't match the requested node name"


class NodeName(fw.FilterPlugin, fw.EnqueueExtensions, fw.LocalPlugin):
    """Filter on spec.nodeName."""

    name = "NodeName"

    def __init__(self, args: Any, context: fw.PluginContext) -> None:
        """Take no args."""

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject every node but the named one."""
        if not pod.node_name:
            return None
        return fw.reject(rows != view.row(pod.node_name), fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def locality(self, pod: fw.PodInfo, view: fw.NodeView) -> fw.Locality:
        """Every node passes, where none is named."""
        return fw.Locality(filters=fw.DependsOn.ANYTHING if pod.node_name else fw.DependsOn.NOTHING)

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register new nodes: one of them may have the name."""
        return (fw.HintRegistration(fw.NODE, ActionType.ADD),)
