"""The demo's workload: 60 pods in three Deployments, placed by the scheduler that a namespace is made for."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from devcluster.probes import wait_until

TAINT = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True)
class DeploymentSpec:
    """One Deployment of the workload."""

    name: str
    replicas: int
    cpu: str
    memory: str


DEPLOYMENTS = (
    DeploymentSpec("web", 30, "250m", "256Mi"),
    DeploymentSpec("api", 20, "400m", "512Mi"),
    DeploymentSpec("worker", 10, "700m", "1Gi"),
)
POD_COUNT = sum(deployment.replicas for deployment in DEPLOYMENTS)


class DemoPods:
    """So many pods for one scheduler, in a namespace of their own."""

    def __init__(self, api: kubernetes.ApiClient, namespace: str, scheduler_name: str, count: int) -> None:
        self._core = kubernetes.CoreV1Api(api)
        self._namespace = namespace
        self._scheduler_name = scheduler_name
        self._count = count

    def remake(self) -> None:
        """Create the namespace; one that was left by an earlier run is removed first."""
        self.delete()
        wait_until(
            lambda: is_gone(self._core, self._namespace),
            60,
            lambda: f"namespace {self._namespace} is still terminating",
        )
        self._core.create_namespace({"metadata": {"name": self._namespace}})

    def delete(self) -> None:
        """Delete the namespace and wait until its pods are gone, so that they take no room from others."""
        try:
            self._core.delete_namespace(self._namespace)
        except ApiException as error:
            if error.status != 404:
                raise
        wait_until(
            lambda: not self._core.list_namespaced_pod(self._namespace, limit=1).items,
            60,
            lambda: f"pods of namespace {self._namespace} are still terminating",
        )

    def wait_bound(self, seconds: float) -> float:
        """Wait until every pod has a node; returns how long it took.

        Raises:
            ServiceError: time is up; says how many pods wait, and what the scheduler says of one of them.
        """
        started = time.monotonic()
        wait_until(lambda: sum(self.pods_per_node().values()) == self._count, seconds, lambda: self._unbound(seconds))
        return time.monotonic() - started

    def _unbound(self, seconds: float) -> str:
        pods = self._core.list_namespaced_pod(self._namespace).items
        waiting = sum(not pod.spec.node_name for pod in pods)
        return (
            f"{waiting} of {self._count} pods in {self._namespace} have no node after {seconds:g} s"
            f"{pending_reason(pods)}; see: secondary-scheduler cluster logs"
        )

    def pods_per_node(self) -> Counter[str]:
        """How many of the pods each node has."""
        pods = self._core.list_namespaced_pod(self._namespace).items
        return Counter(pod.spec.node_name for pod in pods if pod.spec.node_name)


class DemoWorkload(DemoPods):
    """The workload in a namespace of its own."""

    def __init__(self, api: kubernetes.ApiClient, namespace: str, scheduler_name: str) -> None:
        super().__init__(api, namespace, scheduler_name, POD_COUNT)
        self._apps = kubernetes.AppsV1Api(api)

    def create(self) -> None:
        """Create namespace and Deployments."""
        self.remake()
        for deployment in DEPLOYMENTS:
            self._apps.create_namespaced_deployment(self._namespace, self._deployment(deployment))

    def scheduled_event(self) -> str:
        """Who placed one of the pods, as `kubectl describe pod` shows it."""
        return scheduled_event(self._core, self._namespace, self._scheduler_name)

    def _deployment(self, deployment: DeploymentSpec) -> dict[str, Any]:
        labels = {"app": deployment.name}
        container = {
            "name": deployment.name,
            "image": "registry.example/demo/pause:1",
            "resources": {"requests": {"cpu": deployment.cpu, "memory": deployment.memory}},
        }
        pod = {
            "schedulerName": self._scheduler_name,
            "nodeSelector": {"type": "kwok"},
            "tolerations": [TAINT],
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
        }
        return {
            "metadata": {"name": deployment.name},
            "spec": {
                "replicas": deployment.replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }


def is_gone(core: kubernetes.CoreV1Api, namespace: str) -> bool:
    """Whether there is no such namespace, also none that is being deleted."""
    try:
        core.read_namespace(namespace)
    except ApiException as error:
        if error.status != 404:
            raise
        return True
    return False


def scheduled_event(core: kubernetes.CoreV1Api, namespace: str, scheduler: str) -> str:
    """What a scheduler's Event says of one of the pods that it has placed, as `kubectl describe pod` shows it."""
    for event in core.list_namespaced_event(namespace, field_selector="reason=Scheduled").items:
        source = event.reporting_component or (event.source and event.source.component)
        if source == scheduler:
            return f"{source}: {event.message}"
    return "(no Scheduled event yet)"


def pending_reason(pods: list[Any]) -> str:
    """What a scheduler has said of a pod that has no node, behind a semicolon."""
    for pod in pods:
        for condition in pod.status.conditions or ():
            if condition.type == "PodScheduled" and condition.status != "True" and condition.message:
                return f"; {pod.metadata.name}: {condition.message}"
    return "; no scheduler reported a reason"
