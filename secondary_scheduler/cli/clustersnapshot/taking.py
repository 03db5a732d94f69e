"""Taking a snapshot: read everything, then write it in one go."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from scheduler.kube.client import ClientConfig, ConfigError, KubeClient, KubeError, server_version
from scheduler.load import LoadError, nodes_by_address
from secondary_scheduler.cli.clustersnapshot.measuring import read_load_document
from secondary_scheduler.cli.clustersnapshot.reading import RESOURCES, SnapshotResource, read_objects
from secondary_scheduler.cli.connecting import load_connection, renewed_connection
from secondary_scheduler.cli.errors import CommandError, printable
from secondary_scheduler.cli.loadoptions import LoadOrigin
from secondary_scheduler.cli.nodeload import LOAD_API_VERSION, VERSION_KIND
from secondary_scheduler.cli.privatefile import private_file
from secondary_scheduler.cli.yamltext import dump_yaml

_TIMEOUT = 120.0
"""Seconds for one page: a large one through a slow link."""
Say = Callable[[str], None]


class Document(NamedTuple):
    """An object of a snapshot; `data` is JSON."""

    api_version: str
    kind: str
    data: bytes


@contextlib.contextmanager
def cluster_to_read(kubeconfig: Path | None, context: str | None, *, renewed: bool = False) -> Iterator[ClientConfig]:
    """Yield the connection to a cluster of which a snapshot is taken.

    Args:
        kubeconfig, context: as for kubectl.
        renewed: it is used for longer than a login is valid.

    Raises:
        CommandError: there is no connection, or the cluster or the source of its load does not answer.
    """
    try:
        with contextlib.ExitStack() as stack:
            if renewed:
                config = stack.enter_context(renewed_connection(kubeconfig, context))
            else:
                config = load_connection(kubeconfig, context)
            try:
                yield config
            except ConfigError:
                raise
            except KubeError as error:
                raise CommandError(printable(f"{config.server}: {error}")) from error
    except (ConfigError, LoadError) as error:
        raise CommandError(printable(str(error))) from error


def take_snapshot(
    config: ClientConfig, origin: LoadOrigin | None, file: Path | None, *, as_yaml: bool, say: Say
) -> Counter[str]:
    """Write a cluster's objects and load to a file or stdout; returns how many there are of each kind.

    Raises:
        KubeError: the cluster does not answer, or does not let us list nodes or pods.
        LoadError: the source of the load does not answer with loads.
        CommandError: the file cannot be written.
    """
    documents = read_snapshot(config, origin, say)
    with _target(file) as out:
        _write([document.data for document in documents], out, as_yaml=as_yaml)
    return Counter(document.kind for document in documents if document.kind != VERSION_KIND)


def read_snapshot(config: ClientConfig, origin: LoadOrigin | None, say: Say) -> list[Document]:
    """Return what a snapshot of a cluster holds, in its order.

    Raises:
        KubeError: the cluster does not answer, or does not let us list nodes or pods.
        LoadError: the source of the load does not answer with loads.
    """
    version, items = asyncio.run(_read(config, say))
    return list(_documents(version, items, origin, say))


async def _read(config: ClientConfig, say: Say) -> tuple[str, list[tuple[SnapshotResource, list[bytes]]]]:
    """Return the API server's version ("" where it does not say), and the objects."""
    # A few hundred lists at most: no rate limit of ours, the API server has its own.
    async with KubeClient(config, qps=0, user_agent="secondary-scheduler/snapshot", timeout=_TIMEOUT) as client:
        # Last: a cluster that does not answer is told once, by the lists.
        items = [(resource, await read_objects(client, resource, say)) for resource in RESOURCES]
        try:
            version = await server_version(client, timeout=_TIMEOUT)
        except KubeError as error:
            say(f"left out the cluster's version: {error}")
            version = ""
        return version, items


def _documents(
    version: str, items: list[tuple[SnapshotResource, list[bytes]]], origin: LoadOrigin | None, say: Say
) -> Iterator[Document]:
    if version:
        document = {"apiVersion": LOAD_API_VERSION, "kind": VERSION_KIND, "metadata": {"name": "cluster"}}
        yield Document(LOAD_API_VERSION, VERSION_KIND, msgspec.json.encode({**document, "gitVersion": version}))
    for resource, objects in items:
        for data in objects:
            yield Document(resource.api_version, resource.kind, data)
    if origin is not None:
        nodes = (data for resource, objects in items if resource.kind == "Node" for data in objects)
        load = read_load_document(origin, nodes_by_address(_names_and_addresses(nodes)).get, say)
        yield Document(LOAD_API_VERSION, load["kind"], msgspec.json.encode(load))


def _names_and_addresses(nodes: Iterable[bytes]) -> Iterator[tuple[str, list[str]]]:
    for data in nodes:
        node: dict[str, Any] = msgspec.json.decode(data)
        addresses = (node.get("status") or {}).get("addresses") or ()
        yield node["metadata"]["name"], [address.get("address", "") for address in addresses]


def _write(documents: Iterable[bytes], out: IO[bytes], *, as_yaml: bool) -> None:
    """Write YAML documents, or a List in JSON with one object per line."""
    if as_yaml:
        for data in documents:
            out.write(b"---\n" + dump_yaml(msgspec.json.decode(data)))
    else:
        out.write(b'{"apiVersion":"v1","kind":"List","items":[\n' + b",\n".join(documents) + b"\n]}\n")
    out.flush()


@contextlib.contextmanager
def _target(file: Path | None) -> Iterator[IO[bytes]]:
    """Open the file so that it appears complete or not at all and for its owner only; or stdout."""
    if file is None:
        yield sys.stdout.buffer
        return
    with private_file(file, "--file") as out:
        yield out
