"""The demo's gang: eight pods that belong in one rack."""

from __future__ import annotations

from typing import Any

from kubernetes import client as kubernetes

from devcluster.demo.workload import TAINT, DemoPods
from devcluster.inventory import RACK_LABEL

MEMBERS = 8
_GROUP = "training"
_CONTAINER = {
    "name": "worker",
    "image": "registry.example/demo/pause:1",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
}


class DemoGang(DemoPods):
    """A PodGroup and its members in a namespace of their own."""

    def __init__(self, api: kubernetes.ApiClient, namespace: str, scheduler_name: str) -> None:
        super().__init__(api, namespace, scheduler_name, MEMBERS)
        self._groups = kubernetes.CustomObjectsApi(api)

    def create(self) -> None:
        """Create the namespace, the group and its members."""
        self.remake()
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
