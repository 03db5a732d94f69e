"""A stack on a cluster of its own, with settings that change from update to update."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from components._alert_rules import FEW_PODS
from components.alerts import alert_rules
from devcluster import environment
from devcluster.cluster import LocalCluster
from devcluster.demo.pulumi import DemoStack
from devcluster.demo.workload import TAINT
from devcluster.progress import SilentReporter
from devcluster.spec import ClusterSpec
from devcluster.toolchain import binaries
from scheduler import __version__
from scheduler.catalog import METRICS_READER_CLUSTER_ROLE
from tests.support import without_dns
from tests.support.scraping import scraping
from tests.support.waiting import eventually

GO_REPOSITORY = "registry.k8s.io/scheduler-plugins/kube-scheduler"
GO_IMAGE = f"{GO_REPOSITORY}:v0.34.7"
OUR_IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
CHECKOUT = Path(__file__).resolve().parents[2]
NAMESPACE = "openshift-secondary-scheduler-operator"
NAME = "secondary-scheduler"


def places_a_pod(core: kubernetes.CoreV1Api, scheduler_name: str, **metadata: str) -> None:
    """Wait until a scheduler has bound a pod with this metadata in namespace `default`."""
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    spec = {
        "schedulerName": scheduler_name,
        "nodeSelector": {"type": "kwok"},
        "tolerations": [TAINT],
        "containers": [container],
    }
    name = core.create_namespaced_pod("default", {"metadata": metadata, "spec": spec}).metadata.name
    eventually(lambda: core.read_namespaced_pod(name, "default").spec.node_name is not None)


def go_images() -> dict[str, dict[str, Any]]:
    """The image of scheduler-plugins, as the local nodes know it: its real binary, built where it is missing."""
    binary = binaries.ensure(["scheduler-plugins"], SilentReporter())["scheduler-plugins"]
    command = "/bin/kube-scheduler"
    image = {
        "executables": {command: [sys.executable, "-I", str(without_dns.__file__), str(binary)]},
        "appendArgs": {command: ["--bind-address=$(POD_IP)"]},
        "user": 65532,
    }
    return {GO_REPOSITORY: image}


@contextmanager
def live_stack(state_root: Path, directory: Path, name: str) -> Iterator[Live]:
    """A stack of this name on a cluster of three nodes, of the same name, which ends with it."""
    with LocalCluster(ClusterSpec(name=name, nodes=3, state_root=state_root)) as cluster:
        stack = Live(cluster, directory, name)
        yield stack
        stack.close()


class Live:
    """A stack with settings of its own over those of stack `local`, or with none but its own."""

    def __init__(self, cluster: LocalCluster, directory: Path, stack: str, *, only_own: bool = False) -> None:
        self._stack = stack
        self._only_own = only_own
        self._file = directory / f"Pulumi.{stack}.yaml"
        self.environment = {
            **os.environ,
            **environment.variables(cluster.layout, cluster.prometheus_url, os.environ),
        }
        self.settings: dict[str, Any] = {}
        api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        self.core, self.apps = kubernetes.CoreV1Api(api), kubernetes.AppsV1Api(api)
        self.custom = kubernetes.CustomObjectsApi(api)
        self.rbac, self.flow_control = kubernetes.RbacAuthorizationV1Api(api), kubernetes.FlowcontrolApiserverV1Api(api)
        self.before = self.cluster_scoped()
        DemoStack(CHECKOUT, stack, self.environment).select()

    def close(self) -> None:
        """Take away where the engine keeps the salt of a stack that it makes."""
        (CHECKOUT / "stacks" / f"Pulumi.{self._stack}.yaml").unlink(missing_ok=True)

    def command(self, *arguments: str, **settings: Any) -> list[str]:
        """A command line of the engine; settings given once stay."""
        self.settings |= settings
        stack_file = yaml.safe_load((CHECKOUT / "stacks" / "Pulumi.local.yaml").read_text())
        if self._only_own:
            stack_file["config"] = {}
        stack_file["config"] |= {f"secondary-scheduler:{key}": value for key, value in self.settings.items()}
        self._file.write_text(yaml.safe_dump(stack_file))
        common = ["--stack", self._stack, "--config-file", str(self._file), "--non-interactive", "--color", "never"]
        return ["pulumi", *arguments, *common]

    def run(self, *arguments: str, fails: bool = False, **settings: Any) -> str:
        """One command of the engine, which is expected to work or to fail."""
        done = subprocess.run(
            self.command(*arguments, **settings),
            cwd=CHECKOUT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout
        return done.stdout

    def up(self, *, fails: bool = False, **settings: Any) -> str:
        return self.run("up", "--yes", "--skip-preview", fails=fails, **settings)

    def nothing_to_change(self) -> None:
        self.run("preview", "--expect-no-changes", "--diff")

    def output(self) -> dict[str, Any]:
        outputs: dict[str, Any] = json.loads(self._of_stack("output", "--json"))
        return outputs

    def state(self) -> str:
        """What the engine keeps of the stack."""
        return self._of_stack("export")

    def _of_stack(self, *arguments: str) -> str:
        return subprocess.run(
            ["pulumi", "stack", *arguments, "--stack", self._stack],
            cwd=CHECKOUT, env=self.environment, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    def deployments(self) -> dict[str, Any]:
        return {item.metadata.name: item for item in self.apps.list_namespaced_deployment(NAMESPACE).items}

    def limited_pods(self) -> set[str]:
        """Names of the NetworkPolicies that limit both directions; of the scheduler's pods, memory is limited, too."""
        policies = kubernetes.NetworkingV1Api(self.core.api_client).list_namespaced_network_policy(NAMESPACE).items
        for container in self.deployments()[NAME].spec.template.spec.containers:
            assert container.resources.limits == {"memory": "2Gi"}
        return {each.metadata.name for each in policies if set(each.spec.policy_types) == {"Ingress", "Egress"}}

    def config_maps(self) -> set[str]:
        return {
            item.metadata.name
            for item in self.core.list_namespaced_config_map(NAMESPACE).items
            if item.metadata.name.startswith(f"{NAME}-config-")
        }

    def cluster_scoped(self) -> set[str]:
        """What an installation makes outside its namespace, and the namespaces."""
        definitions = kubernetes.ApiextensionsV1Api(self.core.api_client).list_custom_resource_definition()
        priorities = kubernetes.SchedulingV1Api(self.core.api_client).list_priority_class()
        roles, bindings = self.rbac.list_cluster_role(), self.rbac.list_cluster_role_binding()
        flows, namespaces = self.flow_control.list_flow_schema(), self.core.list_namespace()
        lists = (definitions, priorities, roles, bindings, flows, namespaces)
        return {f"{type(item).__name__}/{item.metadata.name}" for listed in lists for item in listed.items}

    def pods(self) -> set[str]:
        """The scheduler's pods that are not on their way out."""
        listed = self.core.list_namespaced_pod(NAMESPACE, label_selector=f"app={NAME}").items
        return {pod.metadata.name for pod in listed if pod.metadata.deletion_timestamp is None}

    def scheduler_is_scraped(self, directory: Path) -> None:
        """A Prometheus with a ServiceAccount of its own, bound to the shipped role, scrapes the scheduler, and an alert
        of the stack's rules fires for pods that fit nowhere."""
        account = f"prometheus-{uuid.uuid4().hex[:8]}"
        metadata = {"metadata": {"name": account}}
        self.core.create_namespaced_service_account("default", metadata)
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
        reference = {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": METRICS_READER_CLUSTER_ROLE,
        }
        self.rbac.create_cluster_role_binding({**metadata, "roleRef": reference, "subjects": [subject]})
        request = {"spec": {"expirationSeconds": 3600}}
        answer = self.core.create_namespaced_service_account_token(account, "default", request)
        (pod,) = self.core.list_namespaced_pod(NAMESPACE, label_selector=f"app={NAME}").items
        labels = {"job": NAME, "namespace": NAMESPACE}
        # Without "for": the test does not wait for half an hour.
        rules = [{"alert": rule["alert"], "expr": rule["expr"]} for rule in alert_rules(NAMESPACE)]
        target, groups = f"{pod.status.pod_ip}:10259", [{"name": "stack", "rules": rules}]
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1000"}}}
        spec = {"schedulerName": NAME, "containers": [container]}
        waiting = [f"{account}-{number}" for number in range(FEW_PODS + 1)]
        for name in waiting:
            self.core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})
        try:
            with scraping(directory, target, answer.status.token, labels=labels, rules=groups) as prometheus:
                prometheus.wait_for(f'up{{job="{NAME}",namespace="{NAMESPACE}"}} == 1')
                eventually(lambda: "SecondarySchedulerPodsUnschedulable" in prometheus.firing(), "an alert that fires")
                eventually(lambda: "SecondarySchedulerDown" not in prometheus.firing(), "no alert that it is down")
        finally:
            for name in waiting:
                self.core.delete_namespaced_pod(name, "default")
            self.rbac.delete_cluster_role_binding(account)
            self.core.delete_namespaced_service_account(account, "default")

    def places_a_pod(self, name: str) -> None:
        places_a_pod(self.core, NAME, name=name)
