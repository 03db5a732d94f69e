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
from devcluster.errors import ServiceError
from devcluster.inventory import COLD, HOT, WARM
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
_PAUSE_SECONDS = 0.2


class Workload:
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
        deadline = time.monotonic() + seconds
        while True:
            check()
            pods = self._of(scheduler)
            placed = Counter(pod.spec.node_name for pod in pods if pod.spec.node_name)
            if sum(placed.values()) == self.count:
                return placed
            if time.monotonic() > deadline:
                waiting = self.count - sum(placed.values())
                raise ServiceError(
                    f"{waiting} of {self.count} pods of {scheduler} have no node after {seconds:g} s{_reason(pods)}"
                )
            time.sleep(_PAUSE_SECONDS)

    def remove(self, scheduler: str, seconds: float = 60) -> None:
        """Delete the pods of a scheduler, so that they take no room from others. Raises ServiceError."""
        selector = f"scheduler={scheduler}"
        self._core.delete_collection_namespaced_pod(
            self._namespace, label_selector=selector, grace_period_seconds=0, propagation_policy="Background"
        )
        wait(lambda: not self._of(scheduler), seconds, f"pods of namespace {self._namespace} are still terminating")

    def event(self, scheduler: str) -> str:
        """Who placed one of the pods, as `kubectl describe pod` shows it."""
        events = self._core.list_namespaced_event(self._namespace, field_selector="reason=Scheduled").items
        for event in events:
            source = event.reporting_component or (event.source and event.source.component)
            if source == scheduler:
                return f"{source}: {event.message}"
        return "(no Scheduled event yet)"

    def _of(self, scheduler: str) -> list[Any]:
        selector = f"scheduler={scheduler}"
        pods: list[Any] = self._core.list_namespaced_pod(self._namespace, label_selector=selector).items
        return pods


def delete_namespace(api: kubernetes.ApiClient, name: str, seconds: float = 120) -> None:
    """Delete a namespace and wait until it is gone. Raises ServiceError."""
    core = kubernetes.CoreV1Api(api)

    def gone() -> bool:
        try:
            core.read_namespace(name)
        except ApiException as error:
            if error.status == 404:
                return True
            raise
        return False

    if not gone():
        core.delete_namespace(name)
        wait(gone, seconds, f"namespace {name} is still terminating")


def wait(done: Callable[[], bool], seconds: float, failure: str) -> None:
    """Return once `done` is true. Raises ServiceError with the text when time is up."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise ServiceError(failure)
        time.sleep(_PAUSE_SECONDS)


def _reason(pods: list[Any]) -> str:
    for pod in pods:
        for condition in pod.status.conditions or ():
            if condition.type == "PodScheduled" and condition.status != "True" and condition.message:
                return f"; {pod.metadata.name}: {condition.message}"
    return "; no scheduler reported a reason"


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
        with ports.serving(lambda: json.dumps(self.document()).encode()) as self._address:
            yield
