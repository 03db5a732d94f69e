"""The plugin of main.go for our scheduler, with its descriptor."""

from __future__ import annotations

from scheduler.catalog import ExtensionPoint, PluginDescriptor
from scheduler.framework import SUCCESS, Code, CycleState, PluginContext, PodInfo, Status

DESCRIPTOR = PluginDescriptor(
    name="Holding",
    points=frozenset({ExtensionPoint.PERMIT}),
    implemented=True,
    flavours=frozenset({"ours"}),
    factory="holding:Holding",
)


class Holding:
    """Has a pod wait for permission on the node that its label `hold` names."""

    name = "Holding"

    def __init__(self, args: object, context: PluginContext) -> None:
        pass

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        """Nobody gives permission; the wait ends with its time, or with whoever preempts the pod."""
        if pod.labels.get("hold") == node:
            return Status(Code.WAIT), 60.0
        return SUCCESS, 0.0
