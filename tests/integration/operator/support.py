"""A blocking API for tests, the operator as a process, and a stand-in for kubelet and scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import yaml

from scheduler.catalog import BASE_CLUSTER_ROLE, cluster_role_binding_name
from scheduler.kube.client import ClientConfig, Conflict, KubeError, NotFound
from scheduler.kube.client.sync import SyncConnection
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.unit.operator.builders import IMAGE

CRD = Path(__file__).parents[3] / "components/crds/operator.openshift.io_secondaryschedulers.yaml"
HASH_ANNOTATION = "secondary-scheduler.io/configuration-hash"
MONITORS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {plural: servicemonitors, singular: servicemonitor, kind: ServiceMonitor}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""

_GROUPS = {
    "configmaps": "/api/v1",
    "secrets": "/api/v1",
    "serviceaccounts": "/api/v1",
    "services": "/api/v1",
    "pods": "/api/v1",
    "events": "/api/v1",
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "secondaryschedulers": "/apis/operator.openshift.io/v1",
}


class Api:
    """Requests to one namespace, as whoever the kubeconfig says."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._connection = SyncConnection(ClientConfig.load(kubeconfig), timeout=10)
        self.namespace = namespace

    def close(self) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        return json.loads(self._connection.request(method, path, body=body, content_type=content_type))

    def path(self, resource: str, name: str = "") -> str:
        path = f"{_GROUPS[resource]}/namespaces/{self.namespace}/{resource}"
        return f"{path}/{name}" if name else path

    def create(self, resource: str, name: str, **content: Any) -> Any:
        return self.call("POST", self.path(resource), {"metadata": {"name": name}, **content})

    def get(self, resource: str, name: str) -> Any:
        """None if it does not exist."""
        with contextlib.suppress(NotFound):
            return self.call("GET", self.path(resource, name))
        return None

    def names(self, resource: str) -> set[str]:
        return {item["metadata"]["name"] for item in self.items(resource)}

    def items(self, resource: str) -> list[Any]:
        return list(self.call("GET", self.path(resource))["items"])

    def patch(self, resource: str, name: str, body: Any, subresource: str = "") -> Any:
        path = self.path(resource, name) + (f"/{subresource}" if subresource else "")
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, resource: str, name: str) -> None:
        with contextlib.suppress(NotFound):
            self.call("DELETE", self.path(resource, name))

    @property
    def base_binding(self) -> str:
        """Name of the binding to the base ClusterRole."""
        return cluster_role_binding_name(BASE_CLUSTER_ROLE, self.namespace)

    def cluster_role_bindings(self) -> set[str]:
        """Names of the operator's bindings."""
        query = "labelSelector=app.kubernetes.io/managed-by%3Dsecondary-scheduler-operator"
        path = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?{query}"
        return {item["metadata"]["name"] for item in self.call("GET", path)["items"]}

    def condition(self, condition_type: str) -> dict[str, str]:
        """A condition of the instance; empty while there is none."""
        resource = self.get("secondaryschedulers", "cluster") or {}
        for condition in (resource.get("status") or {}).get("conditions") or []:
            if condition["type"] == condition_type:
                return dict(condition)
        return {}

    def wait_for(self, condition_type: str, status: str, reason: str = "") -> dict[str, str]:
        def check() -> dict[str, str] | None:
            condition = self.condition(condition_type)
            matches = condition.get("status") == status and reason in ("", condition["reason"])
            return condition if matches else None

        condition = eventually(
            check,
            f"{condition_type}={status} {reason}",
            diagnosis=lambda: f"it is {self.condition(condition_type)}",
        )
        assert condition is not None
        return condition

    def wait_for_hash(self, expected: str) -> None:
        def check() -> bool:
            status = (self.get("secondaryschedulers", "cluster") or {}).get("status") or {}
            return status.get("configurationHash") == expected

        eventually(check, f"configurationHash {expected}")


class Operator:
    """The real operator, as a process with its own rights."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path, *flags: str, identity: str = "operator-0") -> None:
        connection = ["--kubeconfig", str(kubeconfig), "--bind-address", "127.0.0.1"]
        self._arguments = ["--namespace", namespace, *connection, *flags]
        self._identity = identity
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._earlier_lines = len(self.log_lines())
        # As in a pod: the name is the Lease's identity, so that a restarted container takes its Lease back at once.
        environment = {**os.environ, "POD_NAME": self._identity}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "secondary_scheduler.operator",
                    *self._arguments,
                    "--port",
                    "0",
                    "--metrics-port",
                    "0",
                ],
                stderr=log,
                env=environment,
            )

    def wait_until_leading(self) -> None:
        """Returns when the process that was started last reconciles."""

        def leads() -> bool:
            return any(line["event"] == "caches are synced" for line in self.log_lines()[self._earlier_lines :])

        eventually(leads, "operator leads")

    def end(self, signum: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(signum)
        return self.process.wait(PATIENCE_SECONDS)

    def log_lines(self) -> list[dict[str, Any]]:
        text = self._log.read_text() if self._log.exists() else ""
        # A line that is being written, or that was cut by a kill, has no end.
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]

    def port(self, name: str = "port") -> int:
        """Where health is served, or `metrics_port`."""

        def started() -> int:
            ports = [line[name] for line in self.log_lines() if line["event"] == "started"]
            return int(ports[-1]) if ports else 0

        port: int = eventually(started, "operator started")
        return port


class TestKubelet:
    """Makes pods of the scheduler ready and reports on the Lease what a scheduler would, without running anything."""

    __test__ = False

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._api = Api(kubeconfig, namespace)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.container_status: dict[str, Any] | None = None
        """Given to pods instead of readiness, to play trouble."""
        self.troubled = ""
        """Only pods with this label `app` get it; all of them if empty."""
        self.fails_with_image = ""
        """Only pods with this image get it; all of them if empty."""
        self.binds = True
        """Whether canaries bind the pod that they are given."""
        self.annotations: dict[str, str] = {}
        """What the scheduler reports besides its configuration's hash."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join(10)
        self._api.close()

    def _run(self) -> None:
        while not self._end.wait(0.03):
            # Objects come and go under the feet of this loop.
            with contextlib.suppress(NotFound, Conflict):
                for pod in self._api.items("pods"):
                    self._treat(pod)

    def _treat(self, pod: dict[str, Any]) -> None:
        metadata, app = pod["metadata"], pod["metadata"]["labels"].get("app", "")
        if metadata.get("deletionTimestamp") or not app:
            return
        if app.endswith("-canary-probe"):
            self._bind(pod)
            return
        image = pod["spec"]["containers"][0]["image"]
        meant = self.troubled in ("", app) and self.fails_with_image in ("", image)
        trouble = self.container_status if meant else None
        container = {"name": "secondary-scheduler", "image": "x", "imageID": "", "restartCount": 0}
        ready = trouble is None
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        state = {"ready": ready, **(trouble or {"state": {"running": {}}})}
        before = (pod.get("status") or {}).get("containerStatuses")
        if before is None or before[0]["ready"] != ready:
            status = {"phase": "Running", "conditions": [condition], "containerStatuses": [{**container, **state}]}
            self._api.patch("pods", metadata["name"], {"status": status}, "status")
        # A rebalancer has none: it reports elsewhere.
        if ready and HASH_ANNOTATION in metadata["annotations"]:
            self._report(app, metadata["annotations"][HASH_ANNOTATION])

    def _bind(self, probe: dict[str, Any]) -> None:
        """As the canary would: there is no node here, and none is needed for a pod to be bound to it."""
        if self.binds and not probe["spec"].get("nodeName"):
            name = probe["metadata"]["name"]
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "nowhere"}}
            self._api.call("POST", f"{self._api.path('pods', name)}/binding", body)

    def _report(self, name: str, configuration_hash: str) -> None:
        wanted = {HASH_ANNOTATION: configuration_hash, **self.annotations}
        lease = self._api.get("leases", name)
        if lease is None:
            self._api.create("leases", name, spec={"holderIdentity": "a pod"})
        elif lease["metadata"].get("annotations") != wanted:
            self._api.patch("leases", name, {"metadata": {"annotations": wanted}})


def install_crd(api: Api) -> None:
    """The CRD and the static ClusterRoles, if the cluster does not have them."""
    crd = yaml.safe_load(CRD.read_text())
    collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with contextlib.suppress(Conflict):
        api.call("POST", collection, crd)

    def served() -> bool:
        with contextlib.suppress(KubeError):
            api.call("GET", api.path("secondaryschedulers"))
            return True
        return False

    eventually(served, "CRD served")


def create_highly_available(api: Api) -> None:
    """An instance of two replicas at most, with the ConfigMap `config`."""
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    topology = {"mode": "HighlyAvailable", "highlyAvailableTopology": {"maxReplicas": 2}}
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE, "topology": topology}
    api.create("secondaryschedulers", "cluster", **identity, spec=spec)
