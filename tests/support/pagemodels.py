"""A made-up cluster for the pages of `ui`: nodes with load in zones and pools, pods on them, and pods that wait."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    multiPoint:
      enabled:
      - {name: TargetLoadPacking, weight: 10}
      disabled:
      - {name: NodeResourcesBalancedAllocation}
  pluginConfig:
  - name: TargetLoadPacking
    args: {targetUtilization: 50, defaultRequestsMultiplier: "1.5", metricProvider: {type: Prometheus, address: "https://prometheus.example.com"}}
"""
OLD_CONFIGURATION = CONFIGURATION.replace("weight: 10", "weight: 3").replace(
    "targetUtilization: 50", "targetUtilization: 40"
)
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}'
"""A label that nobody may ever run."""
_END = 1_790_000_000
_TIME = "2026-09-21T14:0{minute}:00Z"
_ZONES, _POOLS = ("eu-west-1a", "eu-west-1b", "eu-west-1c"), ("general", "memory", "batch")
_NAMESPACES = ("shop", "search", "analytics", "payments")
_GI = 1 << 30


def write_page_model(directory: Path, nodes: int, pending: int, *, hostile: bool = False) -> dict[str, Path]:
    """Write the files of a snapshot and of two configurations; returns them by name."""
    files = {
        "snapshot": directory / "cluster.json",
        "config": directory / "config.yaml",
        "old": directory / "old.yaml",
    }
    items = snapshot_items(nodes, pending, hostile=hostile)
    files["snapshot"].write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    files["config"].write_text(CONFIGURATION)
    files["old"].write_text(OLD_CONFIGURATION)
    return files


def snapshot_items(nodes: int, pending: int, *, hostile: bool = False) -> list[dict[str, Any]]:
    """Objects: always the same for the same numbers."""
    rng = random.Random(7)
    items: list[dict[str, Any]] = []
    loads: dict[str, Any] = {}
    for index in range(nodes):
        name = f"node-{index:04d}"
        zone, pool = _ZONES[index % 3], _POOLS[(index // 3) % 3]
        cores = {"general": 16, "memory": 16, "batch": 32}[pool]
        memory = {"general": 64, "memory": 128, "batch": 64}[pool] * _GI
        items.append(_node(index, name, zone, pool, cores, memory, hostile=hostile))
        target = min(1.1, max(0.02, rng.gauss({"general": 0.45, "memory": 0.3, "batch": 0.7}[pool], 0.17)))
        items += _running(rng, index, name, cores, memory, target)
        if index % 23 != 22:
            metrics = [
                {"type": kind, "operator": "AVG", "value": round(100 * share, 2)}
                for kind, share in (("CPU", target), ("Memory", min(0.98, target * rng.uniform(0.5, 1.3))))
            ]
            loads[name] = {"metrics": metrics, "tags": {}, "metadata": {}}
    items += [_pending(rng, index, hostile=hostile and index == 0) for index in range(pending)]
    window = {"duration": "15m", "start": _END - 900, "end": _END}
    load = {"timestamp": _END, "window": window, "source": "Prometheus", "data": {"NodeMetricsMap": loads}}
    head = {"apiVersion": "secondary-scheduler.io/v1", "kind": "NodeLoad", "metadata": {"name": "nodes"}}
    return [*items, {**head, **load}]


def _node(index: int, name: str, zone: str, pool: str, cores: int, memory: int, *, hostile: bool) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone, "example.com/pool": pool, "kubernetes.io/hostname": name}
    if hostile and index % 2:
        labels["example.com/evil"] = HOSTILE
    if hostile and index % 2 == 0:
        labels["example.com/evil"] = "tame"
    taints = [{"key": "batch", "value": "only", "effect": "NoSchedule"}] if pool == "batch" else []
    amounts = {"cpu": str(cores), "memory": f"{memory >> 30}Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"node-{index}",
            "labels": labels,
            "creationTimestamp": "2026-09-01T08:00:00Z",
        },
        "spec": {"taints": taints, "unschedulable": index == 5},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _running(rng: random.Random, index: int, node: str, cores: int, memory: int, target: float) -> list[dict[str, Any]]:
    count = rng.randint(2, 5)
    pods = []
    for number in range(count):
        share = min(0.97, target + rng.uniform(-0.1, 0.2)) / count
        requests = {"cpu": f"{max(10, int(1000 * cores * share))}m", "memory": f"{max(1, int(memory * share)) >> 20}Mi"}
        pod = _pod(f"web-{index}-{number}", rng.choice(_NAMESPACES), requests, f"running-{index}-{number}")
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running", "startTime": "2026-09-20T10:00:00Z"}
        pods.append(pod)
    return pods


def _pending(rng: random.Random, index: int, *, hostile: bool) -> dict[str, Any]:
    requests = {"cpu": rng.choice(("250m", "500m", "1", "2")), "memory": rng.choice(("256Mi", "1Gi", "2Gi"))}
    if index % 10 == 7:
        requests["cpu"] = "40"
    pod = _pod(f"api-{index:03d}", rng.choice(_NAMESPACES), requests, f"pending-{index}")
    pod["metadata"]["creationTimestamp"] = _TIME.format(minute=index % 10)
    pod["spec"]["priority"] = 1000 if index % 5 == 0 else 0
    if index % 10 == 4:
        pod["spec"]["nodeSelector"] = {"example.com/pool": HOSTILE if hostile else "gpu"}
    if index % 10 == 9:
        pod["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    if index % 10 == 3:
        pod["spec"]["tolerations"] = [{"key": "batch", "operator": "Exists"}]
    return pod


def _pod(name: str, namespace: str, requests: dict[str, str], uid: str) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example.com/web:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": "2026-09-20T10:00:00Z"},
        "spec": {"schedulerName": "secondary-scheduler", "containers": [container]},
        "status": {"phase": "Pending"},
    }
