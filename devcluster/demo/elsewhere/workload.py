"""The pods that the demo has placed on somebody's cluster. None of their containers ever starts.

The load of somebody's nodes: what their metrics server measures, or numbers that the demo makes up.

Nodes of kind, k3d and minikube share one machine, so what is measured there is much the same on all of them.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from devcluster import ports
from devcluster.demo.elsewhere.configuration import RESTRICTED
from devcluster.demo.elsewhere.target import TargetNode
from devcluster.demo.workload import is_gone, pending_reason, scheduled_event
from devcluster.inventory import COLD, HOT, WARM
from devcluster.probes import wait_until
from scheduler.kube.primitives import quantity_milli_value

PODS_PER_NODE = 6
MAX_PODS = 60
NEVER_STARTED: dict[str, Any] = {
    "name": "never-started",
    "image": "demo.invalid/never-started:1",
    # What counts is the node that a pod gets: nothing is pulled, and nothing runs.
    "imagePullPolicy": "Never",
    "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}},
    "securityContext": {**RESTRICTED, "runAsUser": 65532},
}


class PlacedPods:
    """Pods in a namespace that exists, placed by one scheduler after another."""

    def __init__(self, api: kubernetes.ApiClient, namespace: str, nodes: int) -> None:
        self._core = kubernetes.CoreV1Api(api)
        self._namespace = namespace
        self.count = min(MAX_PODS, PODS_PER_NODE * nodes)

    def place(self, scheduler: str, seconds: float, check: Callable[[], None] = lambda: None) -> Counter[str]:
        """Create the pods for a scheduler, and return how many each node got.

        Raises:
            ServiceError: some have no node in time; says what a scheduler reported about one of them.
        """
        for number in range(self.count):
            spec = {
                "schedulerName": scheduler,
                "containers": [NEVER_STARTED],
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
            }
            metadata = {"name": f"{scheduler}-{number}", "labels": {"scheduler": scheduler}}
            self._core.create_namespaced_pod(self._namespace, {"metadata": metadata, "spec": spec})
        placed: Counter[str] = Counter()

        def all_bound() -> bool:
            check()
            placed.clear()
            placed.update(pod.spec.node_name for pod in self._of(scheduler) if pod.spec.node_name)
            return placed.total() == self.count

        def unbound() -> str:
            missing = self.count - placed.total()
            text = f"{missing} of {self.count} pods of {scheduler} have no node after {seconds:g} s"
            return text + pending_reason(self._of(scheduler))

        wait_until(all_bound, seconds, unbound)
        return placed

    def remove(self, scheduler: str, seconds: float = 60) -> None:
        """Delete the pods of a scheduler, so that they take no room from others. Raises ServiceError."""
        selector = f"scheduler={scheduler}"
        self._core.delete_collection_namespaced_pod(
            self._namespace, label_selector=selector, grace_period_seconds=0, propagation_policy="Background"
        )
        wait_until(
            lambda: not self._of(scheduler),
            seconds,
            lambda: f"pods of namespace {self._namespace} are still terminating",
        )

    def event(self, scheduler: str) -> str:
        """What a scheduler's Event says of one of the pods that it has placed."""
        return scheduled_event(self._core, self._namespace, scheduler)

    def _of(self, scheduler: str) -> list[Any]:
        selector = f"scheduler={scheduler}"
        pods: list[Any] = self._core.list_namespaced_pod(self._namespace, label_selector=selector).items
        return pods


def delete_namespace(api: kubernetes.ApiClient, name: str, seconds: float = 120) -> None:
    """Delete a namespace and wait until it is gone. Raises ServiceError."""
    core = kubernetes.CoreV1Api(api)
    if not is_gone(core, name):
        core.delete_namespace(name)
        wait_until(lambda: is_gone(core, name), seconds, lambda: f"namespace {name} is still terminating")


_WINDOW_SECONDS = 60


class DemoLoads(Protocol):
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
        """See DemoLoads."""
        return {"metricProvider": {"type": "KubernetesMetricsServer"}}

    def cpu(self) -> dict[str, float]:
        """See DemoLoads; empty if the cluster does not serve metrics, or lacks those of a node."""
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
        """See DemoLoads."""
        return {"watcherAddress": self._address}

    def cpu(self) -> dict[str, float]:
        """See DemoLoads."""
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
        with ports.serving(lambda: json.dumps(self.document()).encode()) as self._address:
            yield
