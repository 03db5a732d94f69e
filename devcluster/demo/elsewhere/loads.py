"""The load of somebody's nodes: what their metrics server measures, or numbers that the demo makes up.

Nodes of kind, k3d and minikube share one machine, so what is measured there is much the same on all of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from devcluster import loopback
from devcluster.demo.elsewhere.target import TargetNode
from devcluster.inventory import COLD, HOT, WARM
from scheduler.kube.primitives import quantity_milli_value

_WINDOW_SECONDS = 60


class Loads(Protocol):
    """Where the scheduler reads loads, and what they are now."""

    def settings(self) -> dict[str, Any]:
        """Return args of TargetLoadPacking that name the source."""

    def cpu(self) -> dict[str, float]:
        """Return the share of its CPU that each node uses."""


class MeasuredLoads:
    """What `metrics.k8s.io` says."""

    def __init__(self, api: kubernetes.ApiClient, nodes: Sequence[TargetNode]) -> None:
        self._custom = kubernetes.CustomObjectsApi(api)
        self._nodes = nodes

    def settings(self) -> dict[str, Any]:
        """See Loads."""
        return {"metricProvider": {"type": "KubernetesMetricsServer"}}

    def cpu(self) -> dict[str, float]:
        """See Loads; empty if the cluster does not serve metrics, or lacks those of a node."""
        try:
            answer = self._custom.list_cluster_custom_object("metrics.k8s.io", "v1beta1", "nodes")
        except ApiException:
            return {}
        used = {item["metadata"]["name"]: quantity_milli_value(item["usage"]["cpu"]) for item in answer["items"]}
        if any(node.name not in used for node in self._nodes):
            return {}
        return {node.name: used[node.name] / node.cpu for node in self._nodes}


class MadeUpLoads:
    """Numbers of the demo, served as a load-watcher would; `nodes` and `change` are those of LoadClient.

    By name, the first node is hot, the second cold, the third warm, and so on.
    """

    def __init__(self, nodes: Sequence[TargetNode]) -> None:
        profiles = (HOT, COLD, WARM)
        self._cpu = {node.name: profiles[index % len(profiles)].cpu for index, node in enumerate(nodes)}
        self._address = ""

    def settings(self) -> dict[str, Any]:
        """See Loads."""
        return {"watcherAddress": self._address}

    def cpu(self) -> dict[str, float]:
        """See Loads."""
        return dict(self._cpu)

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Every node's `cpu`."""
        return {name: {"cpu": cpu} for name, cpu in self._cpu.items()}

    def change(self, node: str, change: Mapping[str, float]) -> dict[str, Any]:
        """Set a node's `cpu`."""
        self._cpu[node] = change["cpu"]
        return {"cpu": self._cpu[node]}

    def document(self) -> dict[str, Any]:
        """Return what a load-watcher answers at `/watcher`."""
        now = int(time.time())
        return {
            "timestamp": now,
            "window": {"duration": f"{_WINDOW_SECONDS}s", "start": now - _WINDOW_SECONDS, "end": now},
            "source": "demo",
            "data": {
                "NodeMetricsMap": {
                    name: {"metrics": [{"type": "CPU", "operator": "AVG", "rollup": "1m", "value": 100 * cpu}]}
                    for name, cpu in self._cpu.items()
                }
            },
        }

    @contextmanager
    def served(self) -> Iterator[None]:
        """Serve them on loopback while the block runs."""
        with loopback.serving(lambda: json.dumps(self.document()).encode()) as self._address:
            yield
