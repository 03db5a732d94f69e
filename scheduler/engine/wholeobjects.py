"""Whole pods and nodes, for extenders: the scheduler itself keeps only what filters and scores read.

A pod is read when an extender is to be asked about it: one read per attempt, of few pods. Nodes are watched a second
time, and only where some extender is sent whole Nodes; they are kept as JSON, some ten kilobytes each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from scheduler.engine.extenderwire import without_type
from scheduler.framework import ExtenderError, PodInfo
from scheduler.kube.client import KubeClient, KubeError, NotFound, api_path
from scheduler.kube.model import PODS, DecodeError, EventType, ObjectMeta, ResourceVersion, Unstructured

_TIMEOUT: Final = 10.0
_uid = msgspec.json.Decoder(dict[str, Raw])


class WholeNode(NamedTuple):
    """A node's name, and all of it as it is sent."""

    name: str
    content: Raw


def whole_node(node: Unstructured) -> WholeNode:
    """Return a node as it is sent to extenders."""
    return WholeNode(node.metadata.name, without_type(msgspec.json.encode(node.content)))


class WholeNodes:
    """Sink of the second watch on nodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, Raw] = {}

    def get(self, name: str) -> Raw | None:
        """Return a node; None where the watch has not shown it."""
        return self._nodes.get(name)

    def replace(self, items: Sequence[WholeNode], resource_version: ResourceVersion) -> None:
        """Take a complete list: what is not in it is gone."""
        self._nodes = {node.name: node.content for node in items}

    def apply(self, events: Sequence[tuple[EventType, WholeNode]]) -> None:
        """Apply a batch of changes, in their order."""
        for kind, node in events:
            if kind is EventType.DELETED:
                self._nodes.pop(node.name, None)
            else:
                self._nodes[node.name] = node.content

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Forget a node that cannot be read; the watch beside this one says so."""
        self._nodes.pop(metadata.name, None)


class WholeObjects:
    """Pods and nodes as the API server has them.

    Args:
        client: for reads; with limits of its own.
        nodes: the watched nodes; None where no extender is sent any.
    """

    def __init__(self, client: KubeClient, nodes: WholeNodes | None = None) -> None:
        self._client = client
        self._nodes = nodes

    async def pod(self, pod: PodInfo) -> Raw:
        """Read a pod.

        Raises:
            ExtenderError: it cannot be read, or is another one by now.
        """
        content = await self._read(api_path("v1", "pods", namespace=pod.namespace, name=pod.name), f"pod {pod.key}")
        if _uid_of(content) != pod.uid:
            raise ExtenderError(f"pod {pod.key} has been replaced")
        return content

    async def node_of(self, pod: PodInfo) -> str | None:
        """Read on which node a pod is; "" for none, also where the pod is gone. None where it cannot be read."""
        try:
            path = api_path("v1", "pods", namespace=pod.namespace, name=pod.name)
            read = PODS.decode(await self._client.get(path, timeout=_TIMEOUT))
        except NotFound:
            return ""
        except (KubeError, DecodeError):
            return None
        return read.spec.node_name if read.metadata.uid == pod.uid else ""

    async def nodes(self, names: Iterable[str]) -> list[Raw]:
        """Return nodes in the order of their names; one that the second watch has yet to show is read.

        Raises:
            ExtenderError: one cannot be read.
        """
        result = []
        for name in names:
            node = self._nodes.get(name) if self._nodes is not None else None
            result.append(node or await self._read(api_path("v1", "nodes", name=name), f"node {name}"))
        return result

    async def _read(self, path: str, label: str) -> Raw:
        try:
            return without_type(await self._client.get(path, timeout=_TIMEOUT))
        except KubeError as error:
            raise ExtenderError(f"{label} cannot be read for an extender: {str(error)[:300]}") from error


def _uid_of(content: Raw) -> str:
    try:
        metadata = _uid.decode(_uid.decode(content)["metadata"])
        return msgspec.json.decode(metadata["uid"], type=str)
    except (KeyError, msgspec.MsgspecError):
        return ""
