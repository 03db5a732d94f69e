"""A cluster with simulated nodes, our scheduler as a process, and a Deployment that stands for it in the cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests
import yaml

import components
from components.settings import RebalancerPlan
from scheduler.config import OptionalObjects, SchedulerSettings, load_configuration
from scheduler.kube.client import ClientConfig, NotFound, SyncConnection, api_path
from scheduler.operand import CONFIG_KEY, CONFIG_VOLUME
from tests.components.graph import register
from tests.integration.scheduler.preemption import daemon_running
from tests.integration.scheduler.test_load_limit import Watcher
from tests.support.waiting import eventually

NAMESPACE, SCHEDULER, STATUS = "scheduling", "secondary-scheduler", "secondary-scheduler-rebalancer"
PROFILE = "mine"
WORKLOADS = "shop"
Json = dict[str, Any]
_TOLERATIONS = [{"operator": "Exists"}]
_RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


class RebalancedCluster:
    """What the tests ask the API server for."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._connection = SyncConnection(ClientConfig.load(kubeconfig), timeout=30.0)

    def close(self) -> None:
        self._connection.close()

    def apply(self, item: Json) -> Json:
        version, kind = item["apiVersion"], item["kind"]
        meta = item["metadata"]
        return self.patch(
            api_path(version, f"{kind.lower()}s", namespace=meta.get("namespace"), name=meta["name"]), item
        )

    def patch(self, path: str, item: Json) -> Json:
        answer = self._connection.request(
            "PATCH",
            path,
            body=item,
            params={"fieldManager": "test", "force": "true"},
            content_type="application/apply-patch+yaml",
        )
        return dict(json.loads(answer))

    def get(self, path: str) -> Json:
        return dict(json.loads(self._connection.get(path)))

    def create_token(self, account: str) -> str:
        path = api_path("v1", "serviceaccounts", namespace=NAMESPACE, name=account, subresource="token")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(json.loads(self._connection.request("POST", path, body=request))["status"]["token"])

    def delete(self, path: str) -> None:
        self._connection.request("DELETE", path)

    def pods(self) -> list[Json]:
        """The pods of the workloads that are not on their way out."""
        items = self.get(api_path("v1", "pods", namespace=WORKLOADS))["items"]
        return [item for item in items if "deletionTimestamp" not in item["metadata"]]

    def nodes_of_pods(self) -> dict[str, str]:
        """The node of each of them, by UID; only of those that are ready."""
        return {
            item["metadata"]["uid"]: item["spec"]["nodeName"]
            for item in self.pods()
            for condition in item["status"].get("conditions") or ()
            if condition["type"] == "Ready" and condition["status"] == "True"
        }

    def status(self) -> Json:
        """What the rebalancer says of itself; empty while it says nothing."""
        try:
            data = self.get(api_path("v1", "configmaps", namespace=NAMESPACE, name=STATUS))["data"]
        except NotFound:
            return {}
        return dict(json.loads(data["status.json"]))

    def events(self, reason: str) -> list[Json]:
        items = self.get(api_path("events.k8s.io/v1", "events", namespace=WORKLOADS))["items"]
        return [item for item in items if item["reason"] == reason]


def deployment(name: str, namespace: str, replicas: int, **spec: Any) -> Json:
    container = {"name": "c", "image": "registry.example.com/c:1", **spec.pop("container", {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "tolerations": _TOLERATIONS, **spec},
            },
        },
    }


def configuration(address: str, kubeconfig: Path) -> str:
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "leaderElection": {"leaderElect": True, "resourceNamespace": NAMESPACE, "resourceName": SCHEDULER},
            "profiles": [
                {
                    "schedulerName": PROFILE,
                    "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 10}]}},
                    "pluginConfig": [
                        {"name": "TargetLoadPacking", "args": {"watcherAddress": address}},
                        # A node that is younger than a window takes nothing, and those of a test are.
                        {
                            "name": "SecondarySchedulerOptions",
                            "args": {"load": {"refreshSeconds": 1, "window": "1s"}},
                        },
                    ],
                }
            ],
        }
    )


@contextlib.contextmanager
def stage_running(kubeconfig: Path, watcher: Watcher, directory: Path) -> Iterator[RebalancedCluster]:
    """A scheduler that runs, with two pods of a Deployment that it has placed."""
    stage = RebalancedCluster(kubeconfig)
    for name in (NAMESPACE, WORKLOADS):
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # The cluster has no node that could run it: the process is here, and its Deployment's pod is a simulated one.
    node = next(iter(watcher.loads))
    flags = (f"--leader-elect-resource-namespace={NAMESPACE}", f"--leader-elect-resource-name={SCHEDULER}")
    container = {"command": ["/bin/kube-scheduler"], "args": list(flags)}
    text = configuration(watcher.address, kubeconfig)
    config_map = {"name": "configuration", "namespace": NAMESPACE}
    stage.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": config_map, "data": {CONFIG_KEY: text}})
    volumes = [{"name": CONFIG_VOLUME, "configMap": {"name": config_map["name"]}}]
    stage.apply(deployment(SCHEDULER, NAMESPACE, 1, container=container, nodeName=node, volumes=volumes))
    with daemon_running(directory, text, ("--secure-port=0", *flags)):
        requests = {"resources": {"requests": {"cpu": "800m"}}}
        stage.apply(deployment("web", WORKLOADS, 2, container=requests, schedulerName=PROFILE))
        eventually(lambda: len(stage.nodes_of_pods()) == 2, "both pods are ready")
        path = api_path("apps/v1", "deployments", namespace=NAMESPACE, name=SCHEDULER)
        eventually(lambda: stage.get(path)["status"].get("availableReplicas") == 1, "the Deployment is available")
        yield stage
    stage.close()


def account_of_the_stack(stage: RebalancedCluster, text: str, directory: Path) -> Path:
    """Give the rights that a stack gives to its rebalancer, and no others; returns a kubeconfig with its token."""
    loaded = load_configuration(text, source="test", allow_token_in_config_map=True)
    plan = RebalancerPlan("Automatic", {})
    settings = SchedulerSettings(objects=OptionalObjects(network_policy=False))
    args = components.RebalancerArgs(
        namespace=NAMESPACE,
        plan=plan,
        image="image",
        configuration=loaded,
        config_map_name="configuration",
        settings=settings,
    )
    graph = register(lambda: components.Rebalancer("rebalancer", args), config={})
    for kind in _RIGHTS:
        for item in graph.of(kind):
            version, _, name = item.type.removeprefix("kubernetes:").rpartition(":")
            stage.apply({"apiVersion": version.removeprefix("core/"), "kind": name, **item.manifest})
    answer = stage.create_token(STATUS)
    config = yaml.safe_load(stage.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": answer}
    path = directory / "rebalancer.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def scrape(stage: RebalancedCluster, log: Path) -> str:
    """What a rebalancer with this log serves to an account that may read everything."""
    stage.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper", "namespace": NAMESPACE}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "scraper", "namespace": NAMESPACE}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    stage.apply({**kind, "metadata": {"name": "scraper"}, "roleRef": role, "subjects": [subject]})
    headers = {"Authorization": f"Bearer {stage.create_token('scraper')}"}
    match = re.search(r"""metricsPort["']?[=:] ?(\d+)""", log.read_text())
    assert match is not None, log.read_text()[:2000]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = requests.get(f"https://127.0.0.1:{match[1]}/metrics", headers=headers, verify=False, timeout=10)
    assert answer.status_code == 200, answer.text[:500]
    return answer.text


@contextlib.contextmanager
def rebalancer_running(stage: RebalancedCluster, directory: Path, mode: str) -> Iterator[Path]:
    """The process; gives its log, which must hold no traceback in the end. It must end by itself when it is told to."""
    settings, log = directory / "rebalance.yaml", directory / f"rebalancer-{mode}.log"
    # One round, the first; who is stopped does not wait for the next.
    limits = {"minPodAgeSeconds": 0, "consecutiveAbnormalities": 1, "intervalSeconds": 300}
    settings.write_text(yaml.safe_dump(limits))
    command = [sys.executable, "-m", "secondary_scheduler.cli", "rebalance", "run", "--mode", mode]
    command += ["--config", str(directory / "config.yaml"), "--settings", str(settings)]
    account = account_of_the_stack(stage, (directory / "config.yaml").read_text(), directory)
    command += ["--kubeconfig", str(account), "--namespace", NAMESPACE, "--name", STATUS]
    command += ["--scheduler", f"{NAMESPACE}/{SCHEDULER}", "--port", "0", "--metrics-port", "0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            yield log
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()[-3000:]
            for refused in ("Traceback", "forbidden"):
                assert refused not in log.read_text(), log.read_text()[-3000:]
        finally:
            process.kill()
