"""Volumes on a real API server, with the real volume controller, under the rights that the installation gives.

The scheduler is the daemon as a process. Nodes are bare objects; the test plays kubelet and provisioner.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.kube.client import NotFound
from tests.integration.operator.support import Api
from tests.integration.scheduler.shipped_rights import kubeconfig_with_shipped_rights
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.integration]

STORAGE = "/apis/storage.k8s.io/v1"
SELECTED = "volume.kubernetes.io/selected-node"
ME = f"volumes-{os.getpid()}"
NODES = (f"{ME}-a", f"{ME}-b")
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "profiles": [
        {
            "schedulerName": ME,
            "pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 120}}],
        }
    ],
}
_numbers = itertools.count(1)


class Volumes(Api):
    """The administrator's view, with the objects these tests are about."""

    def claim(self, storage_class: str, size: str = "1Gi") -> str:
        name = f"claim-{next(_numbers)}"
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        }
        body = {"metadata": {"name": name}, "spec": spec}
        self.call("POST", f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims", body)
        return name

    def get_claim(self, name: str) -> Any:
        return self.call("GET", f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{name}")

    def patch_claim(self, name: str, body: Any) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{name}"
        self.call("PATCH", path, body, "application/merge-patch+json")

    def volume(self, storage_class: str, node: str, size: str = "1Gi", claim: str = "") -> str:
        """A volume that only one node reaches."""
        name = f"{ME}-{next(_numbers)}"
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec: dict[str, Any] = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        }
        if claim:
            uid = self.get_claim(claim)["metadata"]["uid"]
            spec["claimRef"] = {"name": claim, "namespace": self.namespace, "uid": uid}
        self.call("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
        return name

    def pod(self, *claims: str) -> str:
        name = f"pod-{next(_numbers)}"
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        spec = {
            "schedulerName": ME,
            "nodeSelector": {"test": ME},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "pause"}],
            "volumes": volumes,
        }
        self.create("pods", name, spec=spec)
        return name

    def node_of(self, pod: str) -> str:
        """ "" while it has none."""
        return str(self.get("pods", pod)["spec"].get("nodeName", ""))

    def wait_bound(self, pod: str) -> str:
        return str(eventually(lambda: self.node_of(pod), f"{pod} bound: {self.message(pod)}"))

    def message(self, pod: str) -> str:
        """What PodScheduled says."""
        conditions = self.get("pods", pod)["status"].get("conditions", [])
        return next(
            (condition.get("message", "") for condition in conditions if condition["type"] == "PodScheduled"), ""
        )


@pytest.fixture(scope="module")
def api(control_plane: Any) -> Iterator[Volumes]:
    api = Volumes(control_plane.kubeconfig, ME)
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": ME}})
    account = f"/api/v1/namespaces/{ME}/serviceaccounts/default"

    def has_account() -> bool:
        with contextlib.suppress(NotFound):
            api.call("GET", account)
            return True
        return False

    eventually(has_account, "the default service account")
    for node in NODES:
        _create_node(api, node)
    yield api
    for node in NODES:
        api.call("DELETE", f"/api/v1/nodes/{node}")
    api.call("DELETE", f"/api/v1/namespaces/{ME}")
    api.close()


def _create_node(api: Api, name: str) -> None:
    labels = {"kubernetes.io/hostname": name, "test": ME}
    api.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    condition = {"type": "Ready", "status": "True", "reason": "Test"}
    status = {"status": {"allocatable": amounts, "capacity": amounts, "conditions": [condition]}}
    api.call("PATCH", f"/api/v1/nodes/{name}/status", status, "application/merge-patch+json")


@pytest.fixture(scope="module")
def kubeconfig(api: Volumes, control_plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("volumes")
    return kubeconfig_with_shipped_rights(api, Path(control_plane.kubeconfig), CONFIGURATION, directory)


@pytest.fixture(scope="module", autouse=True)
def daemon(api: Volumes, kubeconfig: Path) -> Iterator[None]:
    """The scheduler, running."""
    configuration = kubeconfig.parent / "config.yaml"
    connection = {"clientConnection": {"kubeconfig": str(kubeconfig)}}
    configuration.write_text(json.dumps({**CONFIGURATION, **connection}))
    log = kubeconfig.parent / "scheduler.log"
    command = [sys.executable, "-m", "scheduler", "--config", str(configuration), "--secure-port=0"]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    eventually(lambda: "caches are filled" in log.read_text() or process.poll() is not None, "caches filled")
    yield
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()[-3000:]
    assert "Traceback" not in log.read_text()


@pytest.fixture
def make_class(api: Volumes) -> Iterator[Any]:
    """Makes a class of the test's own that binds once a pod has a node."""
    created: list[str] = []

    def make(provisioner: str = "kubernetes.io/no-provisioner") -> str:
        name = f"{ME}-class-{next(_numbers)}"
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        api.call("POST", f"{STORAGE}/storageclasses", body)
        created.append(name)
        return name

    yield make
    for name in created:
        api.call("DELETE", f"{STORAGE}/storageclasses/{name}")


def test_pods_run_where_their_volumes_are(api: Volumes, make_class: Any) -> None:
    storage_class = make_class()
    volumes = {api.volume(storage_class, node): node for node in NODES}
    claims = [api.claim(storage_class) for _ in NODES]
    pods = {api.pod(claim): claim for claim in claims}
    nodes = {pod: api.wait_bound(pod) for pod in pods}
    assert set(nodes.values()) == set(NODES), "one volume per node, one pod per volume"
    for pod, claim in pods.items():
        bound = api.get_claim(claim)
        assert bound["status"]["phase"] == "Bound"
        assert volumes[bound["spec"]["volumeName"]] == nodes[pod]
        assert SELECTED not in bound["metadata"].get("annotations", {})


def _wait_known(api: Volumes, storage_class: str) -> None:
    """Wait until the daemon knows all volumes that were made so far.

    Volumes reach it by a watch of their own, in order: once it has used a later one, it knows the earlier ones.
    """
    claim = api.claim(storage_class)
    api.volume(storage_class, NODES[1])
    api.wait_bound(api.pod(claim))


def test_the_smallest_volume_is_taken(api: Volumes, make_class: Any) -> None:
    storage_class = make_class()
    api.volume(storage_class, NODES[0], "5Gi")
    small = api.volume(storage_class, NODES[0], "2Gi")
    _wait_known(api, make_class())
    claim = api.claim(storage_class, "1Gi")
    assert api.wait_bound(api.pod(claim)) == NODES[0]
    assert api.get_claim(claim)["spec"]["volumeName"] == small


def test_many_pods_at_once_never_share_a_volume(api: Volumes, make_class: Any) -> None:
    storage_class = make_class()
    volumes = {api.volume(storage_class, node): node for node in NODES * 6}
    claims = [api.claim(storage_class) for _ in volumes]
    pods = {api.pod(claim): claim for claim in claims}
    nodes = {pod: api.wait_bound(pod) for pod in pods}
    bound = {claim: api.get_claim(claim)["spec"]["volumeName"] for claim in claims}
    assert sorted(bound.values()) == sorted(volumes)
    assert all(volumes[bound[claim]] == nodes[pod] for pod, claim in pods.items())


def test_a_pod_without_a_volume_waits_with_a_reason_until_there_is_one(api: Volumes, make_class: Any) -> None:
    storage_class = make_class()
    claim = api.claim(storage_class)
    pod = api.pod(claim)
    reason = "2 node(s) didn't find available persistent volumes to bind"
    eventually(lambda: reason in api.message(pod), reason)
    api.volume(storage_class, NODES[1])
    assert api.wait_bound(pod) == NODES[1]


def test_a_provisioner_is_told_the_node_and_the_pod_waits_for_it(api: Volumes, make_class: Any) -> None:
    storage_class = make_class("disk.example.com")
    claim = api.claim(storage_class)
    pod = api.pod(claim)
    node = eventually(lambda: _selected(api, claim), "a node selected for the claim")
    assert api.node_of(pod) == "", "the pod waits for its volume"
    api.volume(storage_class, node, claim=claim)
    assert api.wait_bound(pod) == node
    assert api.get_claim(claim)["status"]["phase"] == "Bound"


def test_a_provisioner_that_cannot_is_asked_again(api: Volumes, make_class: Any) -> None:
    storage_class = make_class("disk.example.com")
    claim = api.claim(storage_class)
    pod = api.pod(claim)
    eventually(lambda: _selected(api, claim), "a node selected for the claim")
    api.patch_claim(claim, {"metadata": {"annotations": {SELECTED: None, "example.com/failed": "yes"}}})
    eventually(lambda: "provisioning failed for PVC" in api.message(pod), "the failure in the pod's condition")
    node = eventually(lambda: _selected(api, claim), "a node selected again")
    api.volume(storage_class, node, claim=claim)
    assert api.wait_bound(pod) == node


def test_waiting_for_volumes_holds_nobody_else_up(api: Volumes, make_class: Any) -> None:
    storage_class = make_class("disk.example.com")
    waiting = [api.claim(storage_class) for _ in range(70)]
    for claim in waiting:
        api.pod(claim)
    eventually(lambda: all(_selected(api, claim) for claim in waiting), "a node selected for every claim")
    assert api.wait_bound(api.pod()) in NODES


def _selected(api: Volumes, claim: str) -> str:
    return str(api.get_claim(claim)["metadata"].get("annotations", {}).get(SELECTED, ""))
