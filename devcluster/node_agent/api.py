"""The agent's requests to the API server: ``cluster`` implements them with the shared client, tests with a recorder."""

from typing import Any, Protocol

from devcluster.node_agent.objects import Obj


class Api(Protocol):
    """Calls by path. All raise ``scheduler.kube.client.KubeError``."""

    async def get(self, path: str) -> Obj:
        """Read an object."""

    async def create(self, path: str, body: Obj) -> Obj:
        """POST a new object (or a TokenRequest, an Eviction …) to a collection or subresource."""

    async def patch(self, path: str, body: Obj) -> Obj:
        """Strategic merge patch."""

    async def delete(self, path: str, options: dict[str, Any]) -> None:
        """Delete with DeleteOptions."""
