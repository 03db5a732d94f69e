"""Kubernetes objects as the agent handles them: plain JSON, since a kubelet reads nearly every field of a pod."""

import json
import re
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from scheduler.kube.primitives import quantity

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


_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_MILLI = -3


class FieldError(ValueError):
    """A field path that this node cannot give."""


def pod_field(pod: Obj, path: str) -> str:
    """The value of a fieldRef; pod carries status.podIP once it has an address. FieldError if not known."""
    metadata = pod["metadata"]
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        entries = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f"{key}={json.dumps(entries[key])}" for key in sorted(entries))
    known: dict[str, Callable[[], Any]] = {
        "metadata.name": lambda: metadata["name"],
        "metadata.namespace": lambda: metadata["namespace"],
        "metadata.uid": lambda: metadata["uid"],
        "spec.nodeName": lambda: pod["spec"]["nodeName"],
        "spec.serviceAccountName": lambda: pod["spec"].get("serviceAccountName", ""),
        "status.podIP": lambda: pod["status"]["podIP"],
        "status.podIPs": lambda: ",".join(entry["ip"] for entry in pod["status"]["podIPs"]),
        "status.hostIP": lambda: pod["status"]["hostIP"],
        "status.hostIPs": lambda: pod["status"]["hostIP"],
    }
    if path not in known:
        raise FieldError(f"fieldPath {path!r} is not supported")
    return str(known[path]())


def container_resource(pod: Obj, own: str, reference: dict[str, Any], allocatable: dict[str, str]) -> str:
    """The value of a resourceFieldRef; a limit that is not set is the node's allocatable amount, as for a kubelet."""
    name = reference.get("containerName") or own
    container = next((item for item in all_containers(pod["spec"]) if item["name"] == name), None)
    if container is None:
        raise FieldError(f"resourceFieldRef: container {name!r} not found")
    section, _, resource = reference["resource"].partition(".")
    if section not in ("limits", "requests"):
        raise FieldError(f"resourceFieldRef: resource {reference['resource']!r} is not supported")
    amounts = container.get("resources") or {}
    text = (amounts.get(section) or {}).get(resource)
    if text is None:
        text = allocatable.get(resource, "0") if section == "limits" else "0"
    amount, divisor = (
        quantity.parse_quantity(str(item)).scaled(_MILLI) for item in (text, reference.get("divisor") or "1")
    )
    return str(-(-amount // (divisor or 1000)))
