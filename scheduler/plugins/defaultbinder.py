"""DefaultBinder: writes the Binding (plugins/defaultbinder)."""

from typing import Any

from scheduler.framework import BindPlugin, CycleState, PluginContext, PodInfo, Status, failure


class DefaultBinder(BindPlugin):
    """Bind through the API server, with the pod's UID as precondition."""

    name = "DefaultBinder"

    def __init__(self, args: Any, context: PluginContext) -> None:
        self._handle = context.handle

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Return Success once the API server has the Binding."""
        if self._handle is None:
            return failure("nothing is bound in a simulation")
        return await self._handle.bind(pod, node)
