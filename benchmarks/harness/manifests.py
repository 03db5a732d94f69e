"""Nodes and pods for benchmarks that need no scenario: of a snapshot, of a list, of a cluster in memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from benchmarks.harness import watcher
from scheduler.framework import NodeLoad
from scheduler.kube.primitives import format_time

Json = dict[str, Any]
SCHEDULER_NAME = "secondary-scheduler"
NOW = 1_700_000_000
"""When snapshots are taken, seconds since the epoch."""
_AGE = 86_400


def at(moment: float) -> str:
    """Return a time as the API server writes it."""
    return format_time(datetime.fromtimestamp(moment, UTC))


LONG_AGO = at(NOW - _AGE)
"""When nodes and running pods were started."""


def node(number: int, resources: Mapping[str, str] | None = None, **fields: Any) -> Json:
    """Return a node in one of three zones, of 16, 32 or 64 cores if nothing else is said; `fields` of its spec."""
    name = node_name(number)
    amounts = resources or {"cpu": ("16", "32", "64")[number % 3], "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"},
            "creationTimestamp": LONG_AGO,
        },
        "spec": fields,
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
        },
    }


def node_name(number: int) -> str:
    """The node with this number."""
    return f"node-{number:05d}"


def pod(
    name: str,
    requests: Mapping[str, str],
    *,
    namespace: str = "bench",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a pod with one container that requests this; `spec` is more of its spec, such as `nodeName`."""
    container = {"name": "c", "image": "registry.invalid/app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": dict(labels or {})},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container], **spec},
    }


def node_load(cpu: Mapping[str, float]) -> Json:
    """Return the load of nodes as a snapshot has it, in per cent of their CPU."""
    loads = {name: NodeLoad(cpu_average=round(value, 2)) for name, value in cpu.items()}
    return {"apiVersion": "secondary-scheduler.io/v1", "kind": "NodeLoad", **watcher.answer(loads, NOW)}


def listed_pod(number: int) -> Json:
    """Return a pod as a ReplicaSet makes it and a list has it, with a status and managedFields; about 6 KB."""
    name = f"web-7dbf868c77-{number:05d}"
    fields: Json = {f"f:field-{index}": {"f:nested": {}} for index in range(60)}
    item = pod(name, {"cpu": "100m", "memory": "128Mi"}, namespace="shop")
    item["metadata"] |= {
        "uid": f"00000000-0000-0000-0000-{number:012d}",
        "resourceVersion": str(number + 1),
        "labels": {"app": "web", "pod-template-hash": "7dbf868c77"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}],
        "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}],
    }
    (container,) = item["spec"]["containers"]
    container["env"] = [{"name": f"VARIABLE_{index}", "value": "some value of usual length"} for index in range(10)]
    container["volumeMounts"] = [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    item["spec"]["tolerations"] = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    item["spec"]["volumes"] = [
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    ]
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    item["status"] = {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.1.0.1", "conditions": conditions}
    return item
