"""The demo's gang: eight pods that belong in one rack."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from kubernetes import client as kubernetes

from devcluster.demo.workload import TAINT, is_gone, pending_reason
from devcluster.inventory import RACK_LABEL
from devcluster.probes import wait_until

MEMBERS = 8
_GROUP = "training"
_CONTAINER = {
    "name": "worker",
    "image": "registry.example/demo/pause:1",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
}


class DemoGang:
    """A PodGroup and its members in a namespace of their own."""

    def __init__(self, api: kubernetes.ApiClient, namespace: str, scheduler_name: str) -> None:
        self._core = kubernetes.CoreV1Api(api)
        self._groups = kubernetes.CustomObjectsApi(api)
        self._namespace = namespace
        self._scheduler_name = scheduler_name

    def create(self) -> None:
        """Create the namespace, the group and its members; what an earlier run left is removed first."""
        if not is_gone(self._core, self._namespace):
            self._core.delete_namespace(self._namespace)
        wait_until(
            lambda: is_gone(self._core, self._namespace),
            60,
            lambda: f"namespace {self._namespace} is still terminating",
        )
        self._core.create_namespace({"metadata": {"name": self._namespace}})
        group = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {
                "name": _GROUP,
                "annotations": {"secondary-scheduler.io/topology-required": RACK_LABEL},
            },
            "spec": {"minMember": MEMBERS},
        }
        self._groups.create_namespaced_custom_object(
            "scheduling.x-k8s.io", "v1alpha1", self._namespace, "podgroups", group
        )
        for number in range(MEMBERS):
            self._core.create_namespaced_pod(self._namespace, self._member(number))

    def _member(self, number: int) -> dict[str, Any]:
        return {
            "metadata": {"name": f"{_GROUP}-{number}", "labels": {"scheduling.x-k8s.io/pod-group": _GROUP}},
            "spec": {
                "schedulerName": self._scheduler_name,
                "tolerations": [TAINT],
                "containers": [_CONTAINER],
                "terminationGracePeriodSeconds": 0,
            },
        }

    def wait_bound(self, seconds: float) -> float:
        """Wait until every member has a node; returns how long it took.

        Raises:
            ServiceError: time is up; says how many wait, and what the scheduler says of one of them.
        """
        started = time.monotonic()
        wait_until(lambda: sum(self.pods_per_node().values()) == MEMBERS, seconds, lambda: self._unbound(seconds))
        return time.monotonic() - started

    def _unbound(self, seconds: float) -> str:
        pods = self._core.list_namespaced_pod(self._namespace).items
        waiting = sum(not pod.spec.node_name for pod in pods)
        return f"{waiting} of {MEMBERS} members of the gang have no node after {seconds:g} s{pending_reason(pods)}"

    def pods_per_node(self) -> Counter[str]:
        """How many members each node has."""
        pods = self._core.list_namespaced_pod(self._namespace).items
        return Counter(pod.spec.node_name for pod in pods if pod.spec.node_name)
