"""Listing a cluster's objects, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw, Struct

from scheduler.kube.client import Expired, Forbidden, KubeClient, KubeError, MalformedResponse, NotFound, api_path
from scheduler.kube.model import RESOURCECLAIMTEMPLATES, Node
from scheduler.state import WATCHED_KINDS
from secondary_scheduler.clustersnapshot.trimming import trim_object
from secondary_scheduler.rebalancing import POD_METRICS, WORKLOADS, MovablePod

_PAGE = 500
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class SnapshotResource:
    """A kind to read.

    Attributes:
        model: the type whose fields are kept.
        required: a snapshot without it is worthless.
        selector: field selector of the list.
        aggregated: served by another server than the cluster's own, which may be away while all else works.
    """

    api_version: str
    plural: str
    kind: str
    model: type[Struct]
    required: bool = False
    selector: str = ""
    aggregated: bool = False

    def trim(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return what of an object goes into the snapshot."""
        return {"apiVersion": self.api_version, "kind": self.kind, **trim_object(data, self.model)}


RESOURCES: tuple[SnapshotResource, ...] = (
    SnapshotResource("v1", "nodes", "Node", Node, required=True),
    *(
        # Workloads with the numbers of their pods, which `rebalance` reads.
        SnapshotResource(
            watch.api_version, watch.resource, watched.kind, WORKLOADS.get(watched.kind, watched.codec).kind
        )
        for watch, watched in WATCHED_KINDS.items()
    ),
    # Read by simulations only, for pods that have no claim yet.
    SnapshotResource(
        "resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate", RESOURCECLAIMTEMPLATES.kind
    ),
    # Read by `rebalance` only, as are the pods' fields that no scheduler reads.
    SnapshotResource("apps/v1", "deployments", "Deployment", WORKLOADS["Deployment"].kind),
    SnapshotResource("metrics.k8s.io/v1beta1", "pods", "PodMetrics", POD_METRICS.kind, aggregated=True),
    # Pods that have ended occupy nothing.
    SnapshotResource("v1", "pods", "Pod", MovablePod, required=True, selector=_RUNNING),
)
"""What a snapshot holds, in its order."""


class _ListMeta(Struct, rename="camel"):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(Struct):
    metadata: _ListMeta | None = None
    items: list[Raw] | None = None


_page = msgspec.json.Decoder(_Page)


async def read_objects(client: KubeClient, resource: SnapshotResource, say: Callable[[str], None]) -> list[bytes]:
    """Return the trimmed objects of a kind as JSON; none where the cluster does not have the kind.

    A kind that we may not list is left out with a message, unless it is required; so is one whose server is away.

    Raises:
        KubeError: the list cannot be had.
    """
    path = api_path(resource.api_version, resource.plural)
    params: dict[str, str | int] = {"limit": _PAGE}
    if resource.selector:
        params["fieldSelector"] = resource.selector
    try:
        try:
            return await _read(client, path, params, resource)
        except Expired:
            # It took so long that the later pages are gone; a list in one piece cannot expire.
            return await _read(client, path, {**params, "limit": 0}, resource)
    except NotFound:
        if resource.required:
            raise
    except Forbidden as error:
        if resource.required:
            raise
        say(f"left out {resource.kind}: this user needs to {error.right}")
    except KubeError as error:
        if not resource.aggregated:
            raise
        say(f"left out {resource.kind}: {error}")
    return []


async def _read(client: KubeClient, path: str, params: dict[str, str | int], resource: SnapshotResource) -> list[bytes]:
    objects: list[bytes] = []
    async for page in _pages(client, path, params):
        objects += [msgspec.json.encode(resource.trim(msgspec.json.decode(raw))) for raw in page]
    return objects


async def _pages(client: KubeClient, path: str, params: dict[str, str | int]) -> AsyncIterator[list[Raw]]:
    token = ""
    while True:
        body = await client.get(path, {**params, "continue": token} if token else params)
        try:
            page = _page.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedResponse(f"GET {path}: not a list: {error}") from error
        yield page.items or []
        token = (page.metadata.continue_ or "") if page.metadata is not None else ""
        if not token:
            return
