"""Taking a snapshot: everything is read before any of it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from scheduler.kube.client import ClientConfig, KubeClient, KubeError, server_version
from scheduler.load import (
    nodes_by_address,
)
from secondary_scheduler.clustersnapshot.measuring import read_load_document
from secondary_scheduler.clustersnapshot.reading import RESOURCES, LoadOrigin, SnapshotResource, read_objects
from secondary_scheduler.nodeload import LOAD_API_VERSION, VERSION_KIND

_TIMEOUT = 120.0
"""Seconds for one page: a large one through a slow link."""
Say = Callable[[str], None]


class Document(NamedTuple):
    """An object of a snapshot; `data` is JSON."""

    api_version: str
    kind: str
    data: bytes


def read_snapshot(config: ClientConfig, say: Say, resources: Sequence[SnapshotResource] = RESOURCES) -> list[Document]:
    """Return what a snapshot of a cluster holds, in its order, but for the load and the configurations.

    Raises:
        KubeError: the cluster does not answer, or does not let us list nodes or pods.
    """
    version, items = asyncio.run(_read(config, say, resources))
    return list(_documents(version, items))


async def _read(
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


def _documents(version: str, items: list[tuple[SnapshotResource, list[bytes]]]) -> Iterator[Document]:
    if version:
        document = {"apiVersion": LOAD_API_VERSION, "kind": VERSION_KIND, "metadata": {"name": "cluster"}}
        yield Document(LOAD_API_VERSION, VERSION_KIND, msgspec.json.encode({**document, "gitVersion": version}))
    for resource, objects in items:
        for data in objects:
            yield Document(resource.api_version, resource.kind, data)


def load_document(origin: LoadOrigin, nodes: Iterable[bytes], say: Say) -> Document:
    """Return the nodes' load as a snapshot holds it; `nodes` are the objects.

    Raises:
        LoadError: the source does not answer with loads.
    """
    load = read_load_document(origin, nodes_by_address(_names_and_addresses(nodes)), say)
    return Document(LOAD_API_VERSION, load["kind"], msgspec.json.encode(load))


def _names_and_addresses(nodes: Iterable[bytes]) -> Iterator[tuple[str, list[str]]]:
    for data in nodes:
        node: dict[str, Any] = msgspec.json.decode(data)
        addresses = (node.get("status") or {}).get("addresses") or ()
        yield node["metadata"]["name"], [address.get("address", "") for address in addresses]
