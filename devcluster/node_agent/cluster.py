"""The API server as the agent uses it: calls, and watched copies of pods, ConfigMaps and Secrets."""

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from devcluster.node_agent.objects import DataKind, NotSyncedError, Obj
from scheduler.kube.client import (
    STRATEGIC_MERGE_PATCH,
    KubeClient,
    Reflector,
    ReflectorTiming,
    Store,
    api_path,
    object_meta,
    unchanged,
)
from scheduler.kube.model import (
    DecodeError,
    EventType,
    ObjectMeta,
    ResourceVersion,
    Unstructured,
    UnstructuredCodec,
)

log = logging.getLogger(__name__)

# A local cluster restarts often: look again sooner than a client of a big one may.
_TIMING = ReflectorTiming(backoff_first=0.2, backoff_most=5.0)
_SYNC_SECONDS = 3.0
_PLURALS: dict[DataKind, str] = {"ConfigMap": "configmaps", "Secret": "secrets"}


class ClusterApi:
    """Calls by path. All raise ``scheduler.kube.client.KubeError``."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, path: str) -> Obj:
        """Read an object."""
        return _object(await self._client.get(path))

    async def create(self, path: str, body: Obj) -> Obj:
        """POST a new object (or a TokenRequest, an Eviction …) to a collection or subresource."""
        return _object(await self._client.post(path, body))

    async def patch(self, path: str, body: Obj) -> Obj:
        """Strategic merge patch."""
        return _object(await self._client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH))

    async def delete(self, path: str, options: dict[str, Any]) -> None:
        """Delete with DeleteOptions."""
        await self._client.delete(path, options)


def _object(data: bytes) -> Obj:
    loaded: Obj = json.loads(data)
    return loaded


class _WatchedKind:
    """A Sink that keeps a Store and tells what changed."""

    def __init__(self, changed: Callable[[Sequence[Obj], Sequence[Obj]], None]) -> None:
        self.store: Store[Unstructured] = Store(object_meta)
        self._changed = changed

    def replace(self, items: Sequence[Unstructured], resource_version: ResourceVersion) -> None:
        changes = self.store.replace(items)
        self._tell(changes.deleted, [*changes.added, *(new for _, new in changes.updated)])

    def apply(self, events: Sequence[tuple[EventType, Unstructured]]) -> None:
        changes = self.store.apply(events)
        self._tell(changes.deleted, [*changes.added, *(new for _, new in changes.updated)])

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        log.warning("%s cannot be read: %s", metadata.key, error)

    def _tell(self, deleted: Sequence[Unstructured], present: Sequence[Unstructured]) -> None:
        self._changed([obj.content for obj in deleted], [obj.content for obj in present])


@dataclass(slots=True)
class _FollowedObject:
    sink: _WatchedKind
    reflector: Reflector[Unstructured, Unstructured]
    task: asyncio.Task[None]
    owners: set[str]


class ClusterData:
    """ConfigMaps and Secrets, kept current by watches: those that a pod of this node refers to, and no others.

    A node's credentials cover no more than that (the Node authorizer), so each object has a watch of its own.
    ``changed`` hears (kind, namespace, name).
    """

    def __init__(self, client: KubeClient, changed: Callable[[DataKind, str, str], None]) -> None:
        self._client = client
        self._changed = changed
        self._followed: dict[tuple[DataKind, str, str], _FollowedObject] = {}

    async def follow(self, owner: str, namespace: str, references: Collection[tuple[DataKind, str]]) -> None:
        """Watch these for a pod (by UID); return when their state is known, or after a few seconds."""
        followed = [self._follow(owner, kind, namespace, name) for kind, name in references]
        waits = [asyncio.ensure_future(entry.reflector.synced.wait()) for entry in followed]
        if waits:
            _, late = await asyncio.wait(waits, timeout=_SYNC_SECONDS)
            for wait in late:
                wait.cancel()

    def release(self, owner: str) -> None:
        """A pod needs nothing any more."""
        for key, entry in list(self._followed.items()):
            entry.owners.discard(owner)
            if not entry.owners:
                entry.task.cancel()
                del self._followed[key]

    def get(self, kind: DataKind, namespace: str, name: str) -> Obj | None:
        """A followed object, or None if it does not exist. Raises NotSyncedError."""
        followed = self._followed.get((kind, namespace, name))
        if followed is None or not followed.reflector.synced.is_set():
            reason = None if followed is None else followed.reflector.state.error
            text = f"failed to sync {kind.lower()} cache: timed out waiting for the condition"
            raise NotSyncedError(f"{text}: {reason}" if reason else text)
        obj = followed.sink.store.named(name, namespace)
        return None if obj is None else obj.content

    def _follow(self, owner: str, kind: DataKind, namespace: str, name: str) -> _FollowedObject:
        key = (kind, namespace, name)
        followed = self._followed.get(key)
        if followed is None:
            sink = _WatchedKind(lambda deleted, present: self._changed(kind, namespace, name))
            reflector = Reflector(
                self._client,
                api_path("v1", _PLURALS[kind], namespace=namespace),
                UnstructuredCodec(),
                sink,
                unchanged,
                field_selector=f"metadata.name={name}",
                timing=_TIMING,
            )
            followed = _FollowedObject(sink, reflector, asyncio.create_task(reflector.run()), set())
            self._followed[key] = followed
        followed.owners.add(owner)
        return followed

    async def close(self) -> None:
        """End all watches."""
        tasks = [entry.task for entry in self._followed.values()]
        self._followed.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def watch_pods(
    client: KubeClient, node: str, changed: Callable[[Sequence[Obj], Sequence[Obj]], None]
) -> Reflector[Unstructured, Unstructured]:
    """A reflector over the pods of one node; ``changed`` hears (deleted, added or updated)."""
    return Reflector(
        client,
        api_path("v1", "pods"),
        UnstructuredCodec(),
        _WatchedKind(changed),
        unchanged,
        field_selector=f"spec.nodeName={node}",
        timing=_TIMING,
    )
