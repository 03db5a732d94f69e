"""Copies of everything a reconcile looks at, kept up to date by watches and by the answers to our own writes."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from scheduler.kube.client import (
    ApiError,
    KubeClient,
    Reflector,
    ReflectorState,
    ReflectorTiming,
    Store,
    api_path,
    object_meta,
)
from scheduler.kube.model import (
    Codec,
    DecodeError,
    EventType,
    Object,
    ObjectMeta,
    ResourceVersion,
    Unstructured,
    UnstructuredCodec,
)
from secondary_scheduler.operator.reconcile import (
    FIELD_MANAGER,
    KIND,
    LABEL_MANAGED_BY,
    RESOURCES,
    ApiFailure,
    Json,
    ObjectKey,
    is_terminating,
)

OnChange = Callable[[str, Unstructured | None, Unstructured | None], None]
"""Called with the kind, the object before and the object after; None where there is none."""

TIMING = ReflectorTiming(backoff_most=10.0)
"""A right that was taken away and given back is noticed within seconds, at the cost of a list every ten."""

# Bounded, since an operator runs for months; the writes that are under way at one time are far fewer.
_REMEMBERED_DELETIONS = 256
"""Per kind; each has to be remembered only as long as a write may be under way."""

_LABELLED_KINDS = (
    *("Pod", "ClusterRoleBinding", "FlowSchema"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
)
_LABELS = dict.fromkeys(_LABELLED_KINDS, f"{LABEL_MANAGED_BY}={FIELD_MANAGER}")


class Caches:
    """One reflector and one store per kind and namespace, for the namespaces that are served; of Secrets and
    Namespaces, which may be read by name only, one per object."""

    def __init__(
        self,
        client: KubeClient,
        namespaces: Collection[str],
        on_change: OnChange,
        *,
        secrets: Collection[str] = (),
        timing: ReflectorTiming = TIMING,
    ) -> None:
        """`secrets` are the names of the Secrets to watch in each namespace."""
        self._caches = {
            (kind, namespace, name): KindCache(client, kind, namespace, on_change, timing, name)
            for kind, resource in RESOURCES.items()
            for namespace in (dict.fromkeys(namespaces) if resource.namespaced or kind == "Namespace" else ("",))
            for name in (dict.fromkeys(secrets) if kind == "Secret" else (namespace if kind == "Namespace" else "",))
        }

    async def run(self) -> None:
        """Keep the caches up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for (kind, namespace, name), cache in self._caches.items():
                group.create_task(cache.reflector.run(), name=f"watch {kind} {namespace} {name}")

    def reflectors(self) -> dict[str, Reflector[Any, Any]]:
        """What keeps the caches up to date, by what it lists."""
        return {" ".join(filter(None, key)): cache.reflector for key, cache in self._caches.items()}

    def state(self, kind: str, namespace: str = "", name: str = "") -> ReflectorState:
        """What the watch of a kind is doing; `namespace` is empty for kinds of the cluster, `name` for kinds of which
        all objects are watched."""
        return self._caches[kind, namespace, name].reflector.state

    def started(self) -> bool:
        """Whether every kind was either listed or refused, so that a reconcile knows what it does not know."""
        return all(cache.reflector.state.synced or cache.failure() for cache in self._caches.values())

    def unreadable(self, namespace: str) -> Mapping[str, ApiFailure]:
        """Kinds of which nothing (any more) can be known in a namespace and the cluster, and why."""
        return {
            kind: failure
            for (kind, watched_namespace, _), cache in self._caches.items()
            if watched_namespace in ("", namespace) and (failure := cache.failure()) is not None
        }

    def unserved(self) -> frozenset[str]:
        """Kinds that this cluster does not have."""
        return frozenset(kind for (kind, *_), cache in self._caches.items() if cache.reflector.state.absent)

    def objects(self) -> dict[ObjectKey, Json]:
        """Everything known, the instances themselves left out."""
        return {
            ObjectKey(kind, obj.metadata.namespace, obj.metadata.name): obj.content
            for (kind, *_), cache in self._caches.items()
            if kind != KIND
            for obj in cache.store
        }

    def instances(self) -> list[ObjectKey]:
        """Keys of all SecondarySchedulers."""
        return [
            ObjectKey(KIND, obj.metadata.namespace, obj.metadata.name)
            for (kind, *_), cache in self._caches.items()
            if kind == KIND
            for obj in cache.store
        ]

    def terminating(self, namespace: str) -> bool:
        """Whether a namespace is being deleted: nothing can be created in it any more."""
        return any(is_terminating(obj.content) for obj in self._caches["Namespace", namespace, namespace].store)

    def get(self, key: ObjectKey) -> Json | None:
        """One object."""
        obj = self._caches[key.kind, key.namespace, ""].store.named(key.name, key.namespace)
        return obj.content if obj is not None else None

    def record_answer(self, key: ObjectKey, answer: Unstructured) -> Json:
        """Store the API server's answer to a write; the watch, which may lag behind, cannot undo it."""
        return self._caches[key.kind, key.namespace, ""].record_answer(answer)


class KindCache:
    """Objects of one kind: the sink of its reflector."""

    def __init__(
        self,
        client: KubeClient,
        kind: str,
        namespace: str,
        on_change: OnChange,
        timing: ReflectorTiming,
        name: str = "",
    ) -> None:
        """`name` is that of the only object to watch; "" for all."""
        resource = RESOURCES[kind]
        self._kind = kind
        self._on_change = on_change
        self.store: Store[Unstructured] = Store(object_meta)
        self._deleted_uids: deque[str] = deque(maxlen=_REMEMBERED_DELETIONS)
        path = api_path(resource.api_version, resource.plural, namespace=namespace if resource.namespaced else None)
        labels = _LABELS.get(kind, "")
        # RBAC grants a list or watch of one name to requests that select it.
        field_selector = f"metadata.name={name}" if name else ""
        self.reflector: Reflector[Unstructured, Unstructured] | Reflector[Object, Unstructured]
        if kind == "Secret":
            # Only whether a Secret exists matters: its content is not even decoded.
            self.reflector = Reflector(
                client,
                path,
                Codec(Object),
                self,
                lambda obj: _metadata_only(kind, obj),
                timing=timing,
                label_selector=labels,
                field_selector=field_selector,
            )
        else:
            self.reflector = Reflector(
                client,
                path,
                UnstructuredCodec(),
                self,
                _node if kind == "Node" else lambda obj: _with_kind(kind, obj),
                timing=timing,
                label_selector=labels,
                field_selector=field_selector,
                optional=resource.optional,
            )

    def record_answer(self, answer: Unstructured) -> Json:
        """Store the API server's answer to a write, unless the object is already known to be deleted."""
        stored = _with_kind(self._kind, answer)
        # The answer to our write and the news of a deletion come over different connections, in any order.
        if stored.metadata.uid not in self._deleted_uids:
            self.store.apply([(EventType.MODIFIED, stored)])
        return stored.content

    def failure(self) -> ApiFailure | None:
        """Why nothing (any more) can be known of this kind, if so."""
        state = self.reflector.state
        error = None if state.absent else state.error
        if isinstance(error, ApiError) and (not state.synced or error.status in (401, 403, 404)):
            return ApiFailure(error.status, error.message)
        # A broken connection is re-established in time; until then the last state seen is the best there is.
        return ApiFailure(0, str(error)) if error is not None and not state.synced else None

    def replace(self, items: Sequence[Unstructured], resource_version: ResourceVersion) -> None:
        """Sink: a complete list."""
        del resource_version
        changes = self.store.replace(items)
        # A deletion may have been undone: the cluster can go back to an older state.
        gone = [uid for uid in self._deleted_uids if self.store.get(uid) is None]
        self._deleted_uids = deque(gone, maxlen=_REMEMBERED_DELETIONS)
        self._deleted_uids.extend(obj.metadata.uid for obj in changes.deleted)
        self._notify(changes.deleted, changes.updated, changes.added)

    def apply(self, events: Sequence[tuple[EventType, Unstructured]]) -> None:
        """Sink: the events of a watch."""
        self._deleted_uids.extend(obj.metadata.uid for kind, obj in events if kind is EventType.DELETED)
        changes = self.store.apply(events)
        self._notify(changes.deleted, changes.updated, changes.added)

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Sink: an object that cannot be decoded counts as absent."""
        del error
        stored = self.store.get(metadata.uid)
        if stored is not None:
            self.apply([(EventType.DELETED, stored)])

    def _notify(
        self,
        deleted: Sequence[Unstructured],
        updated: Sequence[tuple[Unstructured, Unstructured]],
        added: Sequence[Unstructured],
    ) -> None:
        for obj in deleted:
            self._on_change(self._kind, obj, None)
        for before, after in updated:
            self._on_change(self._kind, before, after)
        for obj in added:
            self._on_change(self._kind, None, obj)


def _with_kind(kind: str, obj: Unstructured) -> Unstructured:
    """Items of a list do not carry their kind; managedFields are most of an object's size and of no use here."""
    metadata = {key: value for key, value in obj.content["metadata"].items() if key != "managedFields"}
    content = {**obj.content, "apiVersion": RESOURCES[kind].api_version, "kind": kind, "metadata": metadata}
    return Unstructured(obj.metadata, content)


def _metadata_only(kind: str, obj: Object) -> Unstructured:
    meta = obj.metadata
    content = {"metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}}
    return _with_kind(kind, Unstructured(meta, content))


def _node(obj: Unstructured) -> Unstructured:
    """Only what says whether a scheduler can run there: there are thousands, each with a heartbeat."""
    meta, content = obj.metadata, obj.content
    spec, status = content.get("spec") or {}, content.get("status") or {}
    ready = [
        {"type": "Ready", "status": condition.get("status")}
        for condition in status.get("conditions") or []
        if condition.get("type") == "Ready"
    ]
    reduced = {
        "metadata": {"name": meta.name, "uid": meta.uid, "labels": content["metadata"].get("labels") or {}},
        "spec": {key: spec[key] for key in ("unschedulable", "taints") if key in spec},
        "status": {"conditions": ready},
    }
    return _with_kind("Node", Unstructured(meta, reduced))
