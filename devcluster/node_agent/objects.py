"""Kubernetes objects as the agent handles them: plain JSON, since a kubelet reads nearly every field of a pod."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal

from scheduler.kube.primitives import format_micro_time, format_time, quantity

Obj = dict[str, Any]
DataKind = Literal["ConfigMap", "Secret"]
Clock = Callable[[], float]

NEVER_RESTARTS = ("Succeeded", "Failed")
DEFAULT_GRACE = 30.0


class ContainerConfigError(ValueError):
    """The container cannot be configured; worded as kubelet's CreateContainerConfigError."""


class NotSyncedError(LookupError):
    """The API server has not answered yet whether an object exists; worded as by kubelet."""


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as metav1.Time writes them."""
    return format_time(datetime.fromtimestamp(seconds, UTC))


def micro_timestamp(seconds: float) -> str:
    """Seconds since the epoch as metav1.MicroTime writes them (Leases)."""
    return format_micro_time(datetime.fromtimestamp(seconds, UTC))


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


def grace_period(spec: Obj) -> float:
    """How long a pod may take to end, in seconds."""
    seconds = spec.get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if seconds is None else float(seconds)


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
