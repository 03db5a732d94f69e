"""NodeName: a pod that names its node runs there and nowhere else (plugins/nodename/node_name.go)."""

from collections.abc import Sequence
from typing import Any

from scheduler.catalog import ActionType
from scheduler.framework import (
    NODE,
    Code,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    FilterPlugin,
    HintRegistration,
    Locality,
    LocalPlugin,
    NodeView,
    PluginContext,
    PodInfo,
    RowArray,
    Verdicts,
    reject,
)

REASON = "node(s) didn't match the requested node name"


class NodeName(FilterPlugin, EnqueueExtensions, LocalPlugin):
    """Filter on spec.nodeName."""

    name = "NodeName"

    def __init__(self, args: Any, context: PluginContext) -> None:
        """Take no args."""

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Reject every node but the named one."""
        if not pod.node_name:
            return None
        return reject(rows != view.row(pod.node_name), Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Every node passes, where none is named."""
        return Locality(filters=DependsOn.ANYTHING if pod.node_name else DependsOn.NOTHING)

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Register new nodes: one of them may have the name."""
        return (HintRegistration(NODE, ActionType.ADD),)
