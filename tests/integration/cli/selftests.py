"""Runs of `secondary-scheduler selftest` on a local cluster, and schedulers with a fault to find."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster.cluster import LocalCluster
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
SIMULATED = "kwok.x-k8s.io/node"
PREFIX = "secondary-scheduler-selftest-"
_CRD = ROOT / "components/crds/scheduling.x-k8s.io_podgroups.yaml"
_FAULTY = """#!{python}
import json, os, sys
from pathlib import Path

path = Path(next(flag for flag in sys.argv if flag.startswith("--config=")).partition("=")[2])
content = json.loads(path.read_text())
{fault}
own = path.with_name(f"faulty-{{os.getpid()}}.json")
own.write_text(json.dumps(content))
arguments = [f"--config={{own}}" if flag.startswith("--config=") else flag for flag in sys.argv[1:]]
os.execv(sys.executable, [sys.executable, "-m", "scheduler", *arguments])
"""


class Ground:
    """A local cluster with simulated nodes of which one is tainted, PodGroups, and pods of kube-scheduler."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.kubeconfig, self.audit_log = cluster.kubeconfig, cluster.audit_log
        self.api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        self.core = kubernetes.CoreV1Api(self.api)
        kubernetes.ApiextensionsV1Api(self.api).create_custom_resource_definition(yaml.safe_load(_CRD.read_text()))
        nodes = self.core.list_node(label_selector="type=kwok").items
        taints = [{"key": key, "effect": "NoSchedule"} for key in (SIMULATED, "dedicated")]
        self.core.patch_node(nodes[-1].metadata.name, {"spec": {"taints": taints}})
        spec = {
            "tolerations": [{"key": SIMULATED, "operator": "Exists"}],
            "containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "50m"}}}],
        }
        for number in range(12):
            self.core.create_namespaced_pod("default", {"metadata": {"name": f"web-{number}"}, "spec": spec})
        eventually(self._are_placed, "kube-scheduler's pods have nodes")

    def _are_placed(self) -> bool:
        return all(pod.spec.node_name for pod in self.core.list_namespaced_pod("default").items)

    def command(self, *options: str | Path) -> list[str]:
        """The command line of a run that is agreed to."""
        common = ["selftest", "--yes", "--tolerate", SIMULATED, "--kubeconfig", str(self.kubeconfig)]
        return [sys.executable, "-m", "secondary_scheduler.cli", *common, *map(str, options)]

    def run(self, *options: str | Path) -> tuple[int, dict[str, Any]]:
        """The exit code of a run, and its report."""
        done = subprocess.run(self.command("-o", "json", *options), check=False, capture_output=True, text=True)
        assert done.stdout, done.stderr
        return done.returncode, dict(json.loads(done.stdout))

    def reader(self, file: Path) -> Path:
        """A kubeconfig of somebody who may read nodes and pods, and nothing else."""
        rbac = kubernetes.RbacAuthorizationV1Api(self.api)
        rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list"]}]
        rbac.create_cluster_role({"metadata": {"name": "reader"}, "rules": rules})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
        subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
        binding = {"metadata": {"name": "reader"}, "roleRef": reference, "subjects": [subject]}
        rbac.create_cluster_role_binding(binding)
        self.core.create_namespaced_service_account("default", {"metadata": {"name": "reader"}})
        answer = self.core.create_namespaced_service_account_token("reader", "default", {"spec": {}})
        config = yaml.safe_load(self.kubeconfig.read_text())
        for user in config["users"]:
            user["user"] = {"token": answer.status.token}
        file.write_text(yaml.safe_dump(config))
        return file

    def left(self) -> list[str]:
        """The names of what runs have left in the cluster."""
        rbac, scheduling = kubernetes.RbacAuthorizationV1Api(self.api), kubernetes.SchedulingV1Api(self.api)
        lists = (
            self.core.list_namespace(),
            rbac.list_cluster_role(),
            rbac.list_cluster_role_binding(),
            scheduling.list_priority_class(),
        )
        names = [item.metadata.name for objects in lists for item in objects.items]
        return [name for name in names if name.startswith(PREFIX)]


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    """The outcome of each step."""
    return {step["name"]: step["outcome"] for step in report["steps"]}


def faulty_scheduler(directory: Path, *faults: str) -> Path:
    """A program that runs our scheduler with changed settings: statements that change `content`, or end it."""
    program = directory / "faulty-scheduler"
    program.write_text(_FAULTY.format(python=sys.executable, fault="\n".join(faults)))
    program.chmod(0o755)
    return program


def seen(report: dict[str, Any], step: str) -> Sequence[str]:
    """What a step saw."""
    return list(next(entry["seen"] for entry in report["steps"] if entry["name"] == step))
