"""Builders for the engine's tests."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.framework import NodeInfo, PodInfo
from scheduler.helpers import reduce_node, reduce_pod
from scheduler.kube.model import Node, Pod, decode_node, decode_pod


def pod(name: str, *, node: str = "", cpu: str = "100m", scheduler: str = "secondary-scheduler", **fields: Any) -> Pod:
    """A pod as the API server sends it; its UID is `<name>-uid`."""
    metadata = {"name": name, "namespace": "ns", "uid": f"{name}-uid", "resourceVersion": fields.pop("rv", "1")}
    metadata |= fields.pop("metadata", {})
    status = {
        "phase": "Pending",
        "nominatedNodeName": fields.pop("nominated", ""),
        "conditions": fields.pop("conditions", []),
    }
    spec = {
        "schedulerName": scheduler,
        "nodeName": node,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        **fields,
    }
    return decode_pod(msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status}))


def node(
    name: str,
    *,
    cpu: str = "4",
    addresses: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    version: str = "1",
    **spec: Any,
) -> Node:
    """A node with 110 pods' room and 8 GiB."""
    resources = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    status = {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": address} for address in addresses],
    }
    labels = {"kubernetes.io/hostname": name, **(labels or {})}
    metadata = {"name": name, "uid": f"{name}-uid", "resourceVersion": version, "labels": labels}
    return decode_node(msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status}))


def pod_info(name: str, **fields: Any) -> PodInfo:
    """The reduced form of `pod`."""
    return reduce_pod(pod(name, **fields))


def node_info(name: str, **fields: Any) -> NodeInfo:
    """The reduced form of `node`."""
    return reduce_node(node(name, **fields))
