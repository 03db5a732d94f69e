"""What a snapshot holds of a cluster: its objects, listed page by page, and its load.

What of an object goes into a snapshot: the fields that a scheduler reads, as they are, and no others.

The typed model says which these are; so environment variables, commands, probes, tokens' volumes' content and
whatever a new API version adds stay behind without being listed anywhere.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from scheduler.answers import API_VERSION
from scheduler.kube.client import (
    ClientConfig,
    Expired,
    Forbidden,
    KubeClient,
    KubeError,
    MalformedResponse,
    NotFound,
    api_path,
    server_version,
)
from scheduler.kube.model import RESOURCECLAIMTEMPLATES, Node
from scheduler.load import nodes_by_address
from scheduler.state import WATCHED_KINDS
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin, read_load_document
from secondary_scheduler.nodeload import VERSION_KIND
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
        kind = self.kind.partition(".")[0]  # as `watched_kind` makes it
        return {"apiVersion": self.api_version, "kind": kind, **trim_object(data, self.model)}


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


class _PageMetadata(Struct, rename="camel"):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _ObjectPage(Struct):
    metadata: _PageMetadata | None = None
    items: list[Raw] | None = None


_page = msgspec.json.Decoder(_ObjectPage)


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


class SnapshotObject(NamedTuple):
    """An object of a snapshot; `data` is JSON."""

    api_version: str
    kind: str
    data: bytes


def read_snapshot(
    config: ClientConfig, say: Say, resources: Sequence[SnapshotResource] = RESOURCES
) -> list[SnapshotObject]:
    """Return what a snapshot of a cluster holds, in its order, but for the load and the configurations.

    Raises:
        KubeError: the cluster does not answer, or does not let us list nodes or pods.
    """
    version, items = asyncio.run(_read_all(config, say, resources))
    return list(_documents(version, items))


async def _read_all(
    config: ClientConfig, say: Say, resources: Sequence[SnapshotResource]
) -> tuple[str, list[tuple[SnapshotResource, list[bytes]]]]:
    """Return the API server's version ("" where it does not say), and the objects."""
    # A few hundred lists at most: no rate limit of ours, the API server has its own.
    async with KubeClient(config, qps=0, user_agent="secondary-scheduler/snapshot", timeout=_TIMEOUT) as client:
        # Last: a cluster that does not answer is told once, by the lists.
        items = [(resource, await read_objects(client, resource, say)) for resource in resources]
        try:
            version = await server_version(client, timeout=_TIMEOUT)
        except KubeError as error:
            say(f"left out the cluster's version: {error}")
            version = ""
        return version, items


def _documents(version: str, items: list[tuple[SnapshotResource, list[bytes]]]) -> Iterator[SnapshotObject]:
    if version:
        document = {"apiVersion": API_VERSION, "kind": VERSION_KIND, "metadata": {"name": "cluster"}}
        yield SnapshotObject(API_VERSION, VERSION_KIND, msgspec.json.encode({**document, "gitVersion": version}))
    for resource, objects in items:
        for data in objects:
            yield SnapshotObject(resource.api_version, resource.kind, data)


def load_document(origin: LoadOrigin, nodes: Iterable[bytes], say: Say) -> SnapshotObject:
    """Return the nodes' load as a snapshot holds it; `nodes` are the objects.

    Raises:
        LoadError: the source does not answer with loads.
    """
    load = read_load_document(origin, nodes_by_address(_names_and_addresses(nodes)), say)
    return SnapshotObject(API_VERSION, load["kind"], msgspec.json.encode(load))


def _names_and_addresses(nodes: Iterable[bytes]) -> Iterator[tuple[str, list[str]]]:
    for data in nodes:
        node: dict[str, Any] = msgspec.json.decode(data)
        addresses = (node.get("status") or {}).get("addresses") or ()
        yield node["metadata"]["name"], [address.get("address", "") for address in addresses]


_TIMEOUT = 120.0
"""Seconds for one page: a large one through a slow link."""
Say = Callable[[str], None]


_ANNOTATION_DOMAINS = ("kubernetes.io", "k8s.io", "x-k8s.io", "secondary-scheduler.io", "karpenter.sh")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NUMBER_OR_TIME = re.compile(r"[0-9+.:TZ_ -]{1,40}", re.ASCII)
_META = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
)
Trim = Callable[[Any], Any]


def trim_object(data: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the part of an object that its model reads; metadata without what only tools wrote."""
    result: dict[str, Any] = _projection(kind)(data)
    result["metadata"] = trim_metadata(data.get("metadata") or {}, with_numbers=kind is Node)
    return result


def trim_metadata(meta: Mapping[str, Any], *, with_numbers: bool = False) -> dict[str, Any]:
    """Return metadata without managed fields, and with the annotations of Kubernetes, Karpenter and ours only; also
    those that are a number or a time in digits, if asked for: NodeMetadata may read them."""
    result = {field: meta[field] for field in _META if field in meta}
    annotations = {
        key: text
        for key, text in (meta.get("annotations") or {}).items()
        if (_is_kubernetes_annotation(key) and key != _LAST_APPLIED) or (with_numbers and _is_number(text))
    }
    if annotations:
        result["annotations"] = annotations
    return result


def _is_kubernetes_annotation(key: str) -> bool:
    domain = key.partition("/")[0]
    return any(domain == suffix or domain.endswith(f".{suffix}") for suffix in _ANNOTATION_DOMAINS)


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and _NUMBER_OR_TIME.fullmatch(text) is not None


@lru_cache
def _projection(kind: type[msgspec.Struct]) -> Trim:
    return _trim(msgspec.inspect.type_info(kind))


def _trim(info: Any) -> Trim:
    """Return what keeps of a value the part that a type reads."""
    if isinstance(info, msgspec.inspect.StructType):
        fields = {field.encode_name: _trim(field.type) for field in info.fields}
        return lambda value: _fields(value, fields)
    if isinstance(info, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        trim = _trim(info.item_type)
        return lambda value: [trim(item) for item in value] if isinstance(value, list) else value
    if isinstance(info, msgspec.inspect.UnionType):
        inner = [_trim(member) for member in info.types if isinstance(member, msgspec.inspect.StructType)]
        return inner[0] if inner else _unchanged_value
    return _unchanged_value


def _fields(value: Any, fields: Mapping[str, Trim]) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: trim(value[name]) for name, trim in fields.items() if name in value}


def _unchanged_value(value: Any) -> Any:
    return value
