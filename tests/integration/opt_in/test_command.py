"""`opt-in status` and `opt-in check` on real API servers: with the gate, without it, and with a part missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.integration.opt_in.support import LABEL, SCHEDULER, SERVED_ONLY, Server, deployment, objects, plan, pod
from tests.support.cluster import BARE
from tests.support.simulating import run
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.integration


def checked(server: Server, namespace: str, *options: str) -> tuple[int, dict[str, Any]]:
    code, output = server.cli("check", "-n", namespace, "-o", "json", *options)
    return code, json.loads(output)


def test_check_finds_what_is_missing_one_after_the_other(server: Server) -> None:
    namespace = server.namespace()
    code, document = checked(server, namespace)
    assert (code, document["reason"]) == (3, "policy-missing")
    binding_last = sorted(objects(plan(34, guard="Off")), key=lambda each: each.type.endswith("Binding"))
    server.create(binding_last[0])
    code, document = checked(server, namespace)
    assert (code, document["reason"]) == (3, "binding-missing")
    server.create(binding_last[1])
    code, document = checked(server, namespace)
    assert (code, document["reason"]) == (3, "label-missing")
    assert f"{LABEL}=true" in document["message"]
    server.label(namespace, "true")
    code, document = checked(server, namespace, "--wait", str(PATIENCE_SECONDS))
    assert (code, document["reason"]) == (0, "moved"), document
    assert document["featureGate"] is True
    assert {each["case"]: each["moved"] for each in document["pods"]} == {
        "ordinary": True,
        "duplicate env names": True,
        "opted out by label": False,
        "of a DaemonSet": False,
        "with a node": False,
        "names a scheduler": False,
        "of a system priority class": False,
        "in kube-system": False,
    }
    code, document = checked(server, server.namespace("openshift-mine", **{LABEL: "true"}))
    assert (code, document["reason"]) == (3, "exclusion")


def preflight(server: Server, directory: Path) -> dict[str, tuple[str, str]]:
    """What `preflight` finds for a stack with `optIn` and without a source of load: status and reason by check."""
    (directory / "Pulumi.yaml").write_text("name: secondary-scheduler\n")
    values = {
        "schedulerImage": "registry.example.com/secondary-scheduler/kube-scheduler:0.1.0",
        "cluster": {"kubernetesVersion": "1.34"},
        "optIn": {"mechanism": "policy"},
    }
    file = directory / "Pulumi.prod.yaml"
    file.write_text(json.dumps({"config": {f"secondary-scheduler:{key}": value for key, value in values.items()}}))
    done = run("preflight", "--kubeconfig", server.kubeconfig, "--config", file, "-o", "json")
    (target,) = json.loads(done.out)["sources"]
    assert done.code == (0 if target["ok"] else 1)
    return {each["name"]: (each["status"], each["found"].partition(":")[0]) for each in target["checks"]}


def test_preflight_finds_what_a_stack_with_opt_in_lacks(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    policy = f"policy {SCHEDULER}"
    assert preflight(server, tmp_path)[policy] == ("warning", "policy-missing")
    server.install(plan(34))
    checks = preflight(server, tmp_path)
    assert [checks[name][0] for name in ("admission", policy)] == ["ok", "ok"]


def test_check_stores_nothing(server: Server) -> None:
    namespace = server.namespace()
    server.cli("check", "-n", namespace)
    assert server.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"] == []


def test_status_counts_who_schedules_and_what_would_move(server: Server) -> None:
    server.install(plan(34, guard="Off"))
    namespace = server.namespace()
    other = server.namespace("other")
    server.call("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("default-scheduler"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    eventually(lambda: server.call("GET", pods)["items"], "the Deployment's pod")
    server.label(namespace, "true")
    eventually(lambda: server.scheduler_of(namespace) == SCHEDULER, "the policy takes effect")
    server.call("POST", pods, pod())
    server.call("POST", f"/apis/apps/v1/namespaces/{other}/deployments", deployment("nobody"))
    code, output = server.cli("status", "-A", "-o", "json")
    assert code == 0
    document = json.loads(output)
    rows = {row["name"]: row for row in document["namespaces"]}
    assert rows[namespace] == {
        "name": namespace,
        "optedIn": [SCHEDULER],
        "pods": {"default-scheduler": 1, SCHEDULER: 1},
        "templates": {"default-scheduler": 1},
        "moving": 1,
    }
    assert rows[other]["optedIn"] == []
    unserved = {entry["schedulerName"]: entry for entry in document["unserved"]}
    assert unserved["nobody"]["templates"] == 1
    assert unserved["nobody"]["examples"] == [f"{other}/web"]
    code, output = server.cli("status", "-n", namespace)
    assert code == 0
    assert [line.split()[0] for line in output.splitlines()[1:]] == [namespace]


@pytest.fixture(scope="module")
def served_only(cluster_state_root: Path) -> Iterator[Server]:
    spec = ClusterSpec(name="opt-in-off", state_root=cluster_state_root, api_server_flags=SERVED_ONLY, **BARE)
    with LocalCluster(spec) as cluster:
        server = Server(cluster, 34)
        yield server
        server.close()


@pytest.mark.slow
def test_check_tells_that_policies_are_stored_and_not_evaluated(served_only: Server) -> None:
    served_only.install(plan(34))
    namespace = served_only.namespace(**{LABEL: "true"})
    code, document = checked(served_only, namespace, "--wait", "1")
    assert (code, document["reason"], document["featureGate"]) == (3, "gate-off", False)
    assert "--feature-gates=MutatingAdmissionPolicy=true" in document["message"]
    assert "as its metrics say" in document["message"]
    assert not any(each["moved"] for each in document["pods"])


@pytest.mark.slow
def test_preflight_tells_that_the_gate_is_off(
    served_only: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert preflight(served_only, tmp_path) == {"admission": ("failed", "gate-off")}


@pytest.mark.slow
def test_check_tells_that_policies_are_not_served(
    control_plane: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    server = Server(control_plane, 34)
    try:
        assert preflight(server, tmp_path) == {"admission": ("failed", "gate-off")}
        code, document = checked(server, server.namespace())
        assert (code, document["served"], document["reason"]) == (3, "", "gate-off")
        assert "does not serve MutatingAdmissionPolicies" in document["message"]
    finally:
        server.close()
