"""Kubernetes objects as the agent handles them: plain JSON, since a kubelet reads nearly every field of a pod."""

from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

Obj = dict[str, Any]
DataKind = Literal["ConfigMap", "Secret"]
Clock = Callable[[], float]

NEVER_RESTARTS = ("Succeeded", "Failed")


class ContainerConfigError(ValueError):
    """The container cannot be configured; worded as kubelet's CreateContainerConfigError."""


class NotSyncedError(LookupError):
    """The API server has not answered yet whether an object exists; worded as by kubelet."""


class DataStore(Protocol):
    """ConfigMaps and Secrets, kept current by watches: those that a pod of this node refers to, and no others.

    A node's credentials cover no more than that (the Node authorizer), so each object has a watch of its own.
    """

    async def follow(self, owner: str, namespace: str, references: Collection[tuple[DataKind, str]]) -> None:
        """Watch these for a pod (by UID); return when their state is known, or after a few seconds."""

    def release(self, owner: str) -> None:
        """A pod needs nothing any more."""

    def get(self, kind: DataKind, namespace: str, name: str) -> Obj | None:
        """A followed object, or None if it does not exist. Raises NotSyncedError."""


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as metav1.Time writes them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(seconds: float) -> str:
    """Seconds since the epoch as metav1.MicroTime writes them (Leases)."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def pod_name(pod: Obj) -> str:
    """``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def all_containers(spec: Obj) -> Iterator[Obj]:
    """Init containers, then containers."""
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def is_sidecar(container: Obj) -> bool:
    """Whether it is a sidecar: an init container that keeps running beside the main containers."""
    return container.get("restartPolicy") == "Always"
