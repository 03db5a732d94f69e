"""What becomes of the history of decisions when the leader changes: two replicas as pods of a real Deployment, whose
Lease and rights are those that an installation makes. `explain` is asked each time, over the forwarded port."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from devcluster.cluster import LocalCluster
from scheduler import operand
from scheduler.catalog import BASE_CLUSTER_ROLE, static_cluster_roles
from scheduler.config import load_configuration
from scheduler.kube.client import AlreadyExists
from tests.integration.operator.support import Api
from tests.support.simulating import Result
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.unit.operator.builders import IMAGE

pytestmark = [pytest.mark.integration]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACE, NAME = "handover", "secondary-scheduler"
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "secondary-scheduler"}],
}


def run(*words: str) -> Result:
    """The command line, as a process."""
    command = [sys.executable, "-m", "secondary_scheduler.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


@dataclass
class Replicas:
    """The Deployment, and what is asked of it."""

    api: Api
    kubeconfig: Path
    administrator: Path

    def place(self, name: str) -> None:
        container = {"name": "c", "image": "example.com/none"}
        self.api.create("pods", name, spec={"schedulerName": "secondary-scheduler", "containers": [container]})
        eventually(lambda: self.api.get("pods", name)["spec"].get("nodeName"), f"{name} has a node")

    def explained(self, name: str) -> dict[str, Any]:
        shown = run(*self._question(name), "-o", "json")
        assert shown.code == 0, shown.err
        return dict(yaml.safe_load(shown.out))

    def text(self, name: str) -> str:
        return run(*self._question(name)).out

    def _question(self, name: str) -> list[str]:
        options = ["-n", NAMESPACE, "--scheduler-namespace", NAMESPACE, "--kubeconfig", str(self.kubeconfig)]
        return ["explain", "pod", name, *options]

    def holder(self) -> str:
        lease = self.api.get("leases", NAME) or {}
        return str(lease.get("spec", {}).get("holderIdentity") or "")

    def leader(self) -> str:
        return self.holder().rpartition("_")[0]

    def wait_for_other_holder(self, than: str) -> None:
        """Of the Lease: the next process in the same pod is another one, too."""
        eventually(lambda: self.holder() not in ("", than), f"another holder than {than}")

    def wait_for(self, name: str, holds: Callable[[dict[str, Any]], bool], awaited: str) -> dict[str, Any]:
        def check() -> dict[str, Any] | None:
            shown = run(*self._question(name), "-o", "json")
            answer = yaml.safe_load(shown.out) if shown.code == 0 else {}
            return answer if answer and holds(answer) else None

        return eventually(check, awaited)

    def process(self, pod: str) -> int:
        address = self.api.get("pods", pod)["status"]["podIP"]
        bound = f"--bind-address={address}"
        return next(each.pid for each in psutil.process_iter(["cmdline"]) if bound in (each.info["cmdline"] or ()))


@pytest.fixture(scope="module")
def replicas(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    from devcluster.spec import ClusterSpec

    spec = ClusterSpec(
        name="handover", state_root=cluster_state_root, nodes=0, kwok=False, prometheus=False, tools=False
    )
    with LocalCluster(spec) as cluster, contextlib.closing(Api(cluster.kubeconfig, NAMESPACE)) as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        grant(api)
        kubeconfig = asking(api, cluster.kubeconfig, tmp_path_factory.mktemp("asker"))
        api.create("configmaps", "config", data={"config.yaml": yaml.safe_dump(CONFIGURATION)})
        runs = operand.Operand(
            name=NAME, namespace=NAMESPACE, image=IMAGE, config_map="config", service_account=NAME, replicas=2
        )
        api.create("deployments", NAME, spec=operand.deployment_spec(runs))
        eventually(lambda: ready(api), "two replicas are ready")
        yield Replicas(api, kubeconfig, cluster.kubeconfig)


def ready(api: Api) -> bool:
    deployment = api.get("deployments", NAME)
    status = deployment.get("status", {})
    current = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = [status.get(name, 0) for name in ("replicas", "readyReplicas", "updatedReplicas")]
    return current and counts == [2, 2, 2]


def grant(api: Api) -> None:
    """The roles that an installation binds."""
    enabled = load_configuration(yaml.safe_dump(CONFIGURATION), source="test").profiles[0].enabled
    roles = operand.cluster_roles_for([(enabled, None)])
    account = operand.account(NAME, NAMESPACE)
    api.create("serviceaccounts", NAME)
    for role in {BASE_CLUSTER_ROLE, *roles}:
        rules = [rule.to_dict() for rule in static_cluster_roles()[role]]
        with contextlib.suppress(AlreadyExists):
            api.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": rules})
        binding = {"metadata": {"name": role}, "roleRef": operand.cluster_role_ref(role), "subjects": [account]}
        api.call("POST", f"{RBAC}/clusterrolebindings", binding)
    api.create("roles", "lease", rules=operand.lease_rules(NAME))
    api.create("rolebindings", "lease", roleRef=operand.role_ref("lease"), subjects=[account])


def asking(api: Api, administrator: Path, directory: Path) -> Path:
    """A kubeconfig of an administrator with a token, which the scheduler can review."""
    api.create("serviceaccounts", "asker")
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "asker", "namespace": NAMESPACE}
    body = {"metadata": {"name": "asker"}, "roleRef": reference, "subjects": [subject]}
    api.call("POST", f"{RBAC}/clusterrolebindings", body)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = api.call("POST", api.path("serviceaccounts", "asker") + "/token", request)
    config = yaml.safe_load(administrator.read_text())
    for user in config["users"]:
        user["user"] = {"token": answer["status"]["token"]}
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def is_remembered(answer: dict[str, Any]) -> bool:
    return bool(answer["items"])


def test_a_rollout_keeps_the_history(replicas: Replicas) -> None:
    replicas.place("before-rollout")
    before, first = replicas.explained("before-rollout"), replicas.leader()
    annotations = {"kubectl.kubernetes.io/restartedAt": "2026-11-24T10:00:00Z"}
    replicas.api.patch("deployments", NAME, {"spec": {"template": {"metadata": {"annotations": annotations}}}})
    eventually(lambda: ready(replicas.api) and len(replicas.api.items("pods")) == 3, "the rollout is done")
    assert replicas.leader() != first
    after = replicas.wait_for("before-rollout", is_remembered, "the new leader has the history")
    (item,) = after["items"]
    assert item == {**before["items"][0], "decidedBy": first}
    assert item["details"]["nodes"][0]["name"] == item["node"]
    assert after["history"]["since"] == before["history"]["since"]
    assert f"decided by {first}" in replicas.text("before-rollout")


def test_who_has_a_certificate_asks_as_a_service_account(replicas: Replicas) -> None:
    replicas.place("asked-about")
    words = ["explain", "pod", "asked-about", "-n", NAMESPACE, "--scheduler-namespace", NAMESPACE]
    words += ["--kubeconfig", str(replicas.administrator)]
    refused = run(*words)
    assert (refused.code, refused.out) == (1, "")
    assert "name a ServiceAccount with --as-service-account (it needs to get pods in namespace" in refused.err
    assert "handover/asked-about: scheduled on real-0" in run(*words, "--as-service-account", f"{NAMESPACE}/asker").out
    replicas.api.create("serviceaccounts", "nobody")
    refused = run(*words, "--as-service-account", f"{NAMESPACE}/nobody")
    assert "ServiceAccount handover/nobody needs to get pods in namespace handover" in refused.err
    words = ["top", "nodes", "--scheduler-namespace", NAMESPACE, "--kubeconfig", str(replicas.administrator)]
    assert "not shown" in run(*words).out
    # This scheduler has no source of load.
    assert "not measured" in run(*words, "--as-service-account", f"{NAMESPACE}/asker").out


def test_a_leader_that_lost_its_lease_hands_its_history_over_before_it_ends(replicas: Replicas) -> None:
    replicas.place("before-loss")
    holder, leader = replicas.holder(), replicas.leader()
    process = replicas.process(leader)
    os.kill(process, signal.SIGSTOP)
    try:
        replicas.wait_for_other_holder(holder)
    finally:
        os.kill(process, signal.SIGCONT)
    answer = replicas.wait_for("before-loss", is_remembered, "the new leader has the history")
    assert answer["items"][0]["decidedBy"] == leader
    eventually(lambda: not psutil.pid_exists(process), "the old leader has ended")


def test_after_a_crash_it_is_lost_and_explain_says_so(replicas: Replicas) -> None:
    eventually(lambda: ready(replicas.api), "two replicas are ready")
    replicas.place("before-crash")
    holder = replicas.holder()
    os.kill(replicas.process(replicas.leader()), signal.SIGKILL)
    replicas.wait_for_other_holder(holder)
    answer = replicas.wait_for("before-crash", lambda _: True, "the new leader answers")
    assert (answer["items"], answer["forgotten"]["node"]) == ([], "real-0")
    text = replicas.text("before-crash")
    assert text.startswith("handover/before-crash: placed on real-0 before the restart at ")
    assert "judged now: it fits there, number 1 of 1 node that fit" in text
