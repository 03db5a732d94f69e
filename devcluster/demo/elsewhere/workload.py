"""The pods that the demo has placed on somebody's cluster. None of their containers ever starts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from devcluster.demo.elsewhere.configuration import RESTRICTED
from devcluster.errors import ServiceError

PODS_PER_NODE = 6
MOST_PODS = 60
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
        self.count = min(MOST_PODS, PODS_PER_NODE * nodes)

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
