"""An API server to ask about pods, and the objects that the component makes, as it makes them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from typer.testing import CliRunner

import components
from components.settings import OptInPlan, OptInSettings, plan_opt_in
from devcluster.cluster import LocalCluster
from scheduler.kube.client import ClientConfig, KubeError, NotFound, SyncConnection
from secondary_scheduler.cli import app
from tests.components.graph import Registered, register
from tests.support.waiting import eventually

SCHEDULER = "secondary-scheduler"
OWN_NAMESPACE = "scheduling"
LABEL = "secondary-scheduler.io/pods"
GROUP = "/apis/admissionregistration.k8s.io"
GATE_ON = (
    "--feature-gates=MutatingAdmissionPolicy=true",
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
)
SERVED_ONLY = GATE_ON[1:]
"""The API is served, and the gate off: what an administrator has who reads half of the page."""
_PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
_numbers = itertools.count(1)


def plan(minor: int, *names: str, **settings: Any) -> OptInPlan:
    """What follows from the setting, which must be right."""
    read = OptInSettings.model_validate_json(json.dumps({"mechanism": "policy", **settings}))
    planned, problems = plan_opt_in(read, names or (SCHEDULER,), minor)
    assert planned is not None, problems
    return planned


def objects(planned: OptInPlan) -> list[Registered]:
    """The objects of the component, in the order in which it registers them."""
    args = components.OptInArgs(planned, OWN_NAMESPACE)
    return register(lambda: components.OptIn("opt-in", args), config={}).objects


def pod(labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/app:v1", **spec.pop("container", {})}
    owners = {"ownerReferences": [spec.pop("owner")]} if "owner" in spec else {}
    metadata = {"generateName": "pod-", "labels": dict(labels or {}), **owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def deployment(scheduler_name: str) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {**pod()["spec"], "schedulerName": scheduler_name}}
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


class Server:
    """Requests to an API server as its administrator.

    Attributes:
        minor: of its Kubernetes.
        cluster: that it belongs to.
    """

    def __init__(self, cluster: LocalCluster, minor: int) -> None:
        self.cluster, self.kubeconfig, self.minor = cluster, cluster.kubeconfig, minor
        self._connection = SyncConnection(ClientConfig.load(cluster.kubeconfig), timeout=30)

    def close(self) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        return json.loads(self._connection.request(method, path, body=body, **options))

    def namespace(self, name: str = "", **labels: str) -> str:
        """A new namespace whose pods can be created."""
        name = f"{name or 'opt-in'}-{next(_numbers)}"
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        eventually(lambda: self.exists(path), "the ServiceAccount that pods need")
        return name

    def exists(self, path: str) -> bool:
        try:
            self.call("GET", path)
        except NotFound:
            return False
        return True

    def label(self, namespace: str, value: str | None) -> None:
        body = {"metadata": {"labels": {LABEL: value}}}
        path = f"/api/v1/namespaces/{namespace}"
        self.call("PATCH", path, body, content_type="application/merge-patch+json")

    def dry_run(self, namespace: str, body: Mapping[str, Any], path: str = "/api/v1", plural: str = "pods") -> Any:
        """What would be stored, and the warnings; or the refusal."""
        warnings: list[str] = []
        place = f"{path}/namespaces/{namespace}/{plural}"
        try:
            answer = self.call("POST", place, dict(body), params={"dryRun": "All"}, on_warning=warnings.append)
        except KubeError as error:
            return str(error), warnings
        return answer, warnings

    def scheduler_of(self, namespace: str, body: Mapping[str, Any] | None = None) -> str:
        answer, _ = self.dry_run(namespace, body or pod())
        return str(answer["spec"]["schedulerName"]) if isinstance(answer, dict) else answer

    def create(self, registered: Registered) -> None:
        """Create an object that a program has registered."""
        version = registered.type.split(":")[1].rpartition("/")[2]
        kind = registered.type.rpartition(":")[2]
        manifest = {key: value for key, value in registered.manifest.items() if value is not None}
        body = {**manifest, "apiVersion": f"admissionregistration.k8s.io/{version}", "kind": kind}
        self.call("POST", f"{GROUP}/{version}/{_PLURALS[kind]}", body)

    def install(self, planned: OptInPlan) -> None:
        for registered in objects(planned):
            self.create(registered)

    def remove_policies(self) -> None:
        """Remove all of them: each test has its own."""
        versions = {"Mutating": "v1beta1" if self.minor < 36 else "v1", "Validating": "v1"}
        for kind, plural in _PLURALS.items():
            version = next(version for prefix, version in versions.items() if kind.startswith(prefix))
            if self.exists(f"{GROUP}/{version}/{plural}"):
                self.call("DELETE", f"{GROUP}/{version}/{plural}")

    def settle(self) -> None:
        """Wait until policies that were removed have no effect any more."""
        opted, other = self.namespace("settled", **{LABEL: "true"}), self.namespace("settled")
        quiet = [
            (opted, pod(), "/api/v1", "pods"),
            (opted, deployment("nobody"), "/apis/apps/v1", "deployments"),
            (other, pod(schedulerName=SCHEDULER), "/api/v1", "pods"),
        ]

        def settled() -> bool:
            answers = [self.dry_run(*request) for request in quiet]
            untouched = all(isinstance(answer, dict) and not warnings for answer, warnings in answers)
            return untouched and answers[0][0]["spec"]["schedulerName"] == "default-scheduler"

        eventually(settled, "the policies have no effect any more")

    def cli(self, *arguments: str) -> tuple[int, str]:
        words = ["opt-in", *arguments, "--kubeconfig", str(self.kubeconfig)]
        done = CliRunner().invoke(app.build(words), words)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output
