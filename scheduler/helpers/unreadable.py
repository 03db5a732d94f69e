"""What can be read of a pod that cannot be fully decoded, so that one on a node keeps its room there."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.framework import PodInfo
from scheduler.helpers.reduce import reduce_pod
from scheduler.kube.model import Pod

_HIGHEST_PRIORITY = 2**31 - 1
"""Of a pod whose priority cannot be read: it is nobody's victim."""
_MAX_LABELS = 4096
_CONTAINER = ("name", "restartPolicy", "ports")
"""Fields of a container, beside its requests, from which it is known what it occupies."""
_STATUS = ("conditions", "containerStatuses", "initContainerStatuses", "startTime")
"""Fields of a status from which it is known what a pod occupies while it is being resized."""


class UnreadablePod(PodInfo, frozen=True, eq=False):
    """A pod of which only a part could be read.

    Attributes:
        error: what could not be read, with its path.
        requests_known: what it requests is all there; else it counts as a pod without requests.
    """

    error: str = ""
    requests_known: bool = False


def salvage_pod(content: Any, error: str) -> UnreadablePod | None:
    """Return what can be read of a pod; None where not even its UID can.

    Args:
        content: the object as plain dicts and lists.
        error: why it couldnot be fully decoded.
    """
    metadata, spec, status = (_part(content, name) for name in ("metadata", "spec", "status"))
    labels = _part(metadata, "labels")
    if not metadata.get("uid") or not isinstance(metadata["uid"], str):
        return None
    identity: dict[str, Any] = {
        "metadata": {
            **_texts(metadata, "uid", "name", "namespace", "resourceVersion", "deletionTimestamp", "creationTimestamp"),
            # More than these are not read, of no object.
            "labels": _texts(labels, *itertools.islice(labels, _MAX_LABELS)),
        },
        "spec": {**_texts(spec, "nodeName", "schedulerName"), "priority": _priority(spec)},
        "status": _texts(status, "phase"),
    }
    requests: dict[str, Any] = {
        **{name: [_container(item) for item in _list(spec, name)] for name in ("containers", "initContainers")},
        **_with_requests(spec),
        **{name: spec[name] for name in ("overhead",) if name in spec},
    }
    terms = {"affinity": spec["affinity"]} if "affinity" in spec else {}
    occupied = identity["status"] | {name: status[name] for name in _STATUS if name in status}
    complete = bool(requests["containers"])
    for fields in ({**requests, **terms}, requests) if complete else ():
        pod = _reduced(identity | {"spec": identity["spec"] | fields, "status": occupied})
        if pod is not None:
            return _unreadable(pod, error, requests_known=True)
    pod = _reduced(identity)
    return None if pod is None else _unreadable(pod, error, requests_known=False)


def _reduced(content: Mapping[str, Any]) -> PodInfo | None:
    try:
        return reduce_pod(msgspec.convert(content, Pod))
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None


def _unreadable(pod: PodInfo, error: str, *, requests_known: bool) -> UnreadablePod:
    fields = {name: getattr(pod, name) for name in pod.__struct_fields__}
    return UnreadablePod(**fields, error=error, requests_known=requests_known)


def _part(data: Any, name: str) -> Mapping[str, Any]:
    part = data.get(name) if isinstance(data, dict) else None
    return part if isinstance(part, dict) else {}


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    items = data.get(name, [])
    # What is no list cannot be read as a container either.
    return list(items) if isinstance(items, (list, tuple)) else [items]


def _container(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: item[name] for name in _CONTAINER if name in item} | _with_requests(item)


def _with_requests(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requests of a container or of a pod, without its limits."""
    resources = data.get("resources", {})
    return {"resources": {"requests": resources.get("requests", {})} if isinstance(resources, dict) else resources}


def _texts(data: Mapping[str, Any], *names: str) -> dict[str, str]:
    return {name: data[name] for name in names if isinstance(data.get(name), str)}


def _priority(spec: Mapping[str, Any]) -> int:
    priority = spec.get("priority") or 0
    readable = type(priority) is int and abs(priority) <= _HIGHEST_PRIORITY
    return priority if readable else _HIGHEST_PRIORITY
