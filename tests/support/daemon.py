"""The scheduler's process under test: started with a configuration, watched through its log and endpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import ports
from tests.support.waiting import PATIENCE_SECONDS, eventually

_OPEN = "/metrics,/readyz,/livez,/healthz,/configz"


def configuration(kubeconfig: Path, scheduler_name: str, *plugin_config: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A configuration without leader election whose profile scores by TargetLoadPacking if it has args."""
    profile: dict[str, Any] = {"schedulerName": scheduler_name, "pluginConfig": list(plugin_config)}
    if any(entry["name"] == "TargetLoadPacking" for entry in plugin_config):
        profile["plugins"] = {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [profile],
        **more,
    }


class RunningDaemon:
    """A process of the scheduler, its log and its endpoints."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, port: int, host: str) -> None:
        self.process, self.port, self._log, self.host = process, port, log, host

    @property
    def log(self) -> str:
        """All it has written."""
        return self._log.read_text()

    def records(self, event: str = "") -> list[dict[str, Any]]:
        """The lines of the log, or those of one event."""
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in lines if not event or line["event"] == event]

    def get(self, path: str, **options: Any) -> requests.Response:
        """Ask an endpoint."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return requests.get(f"https://{self.host}:{self.port}{path}", **{"verify": False, "timeout": 5, **options})

    def serves(self) -> bool:
        """Whether it answers; fails the test if it has ended."""
        assert self.process.poll() is None, self.log[-3000:]
        return '"event": "serving"' in self.log


@contextmanager
def daemon(
    directory: Path,
    content: Mapping[str, Any],
    *arguments: str,
    bind: str | None = "127.0.0.1",
    host: str = "127.0.0.1",
    environment: Mapping[str, str] | None = None,
    serving: bool = True,
    program: Sequence[str] = ("-m", "scheduler"),
) -> Iterator[RunningDaemon]:
    """Run it; with `serving` only once it answers. `program` is what the interpreter runs instead of the scheduler."""
    config, log = directory / "config.yaml", directory / "daemon.log"
    config.write_text(json.dumps(content))
    port = ports.allocate(["daemon"], {})["daemon"]
    command = [sys.executable, *program, f"--config={config}", f"--secure-port={port}"]
    command += [f"--bind-address={bind}"] if bind else []
    command += ["--logging-format=json", f"--authorization-always-allow-paths={_OPEN}", *arguments]
    environ = {**os.environ, **(environment or {})}
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environ) as process:
        running = RunningDaemon(process, log, port, host)
        try:
            if serving:
                eventually(running.serves, "it serves")
            yield running
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


class Cluster:
    """Objects of the control plane that a test needs, removed at its end."""

    def __init__(self, kubeconfig: Path, name: str) -> None:
        self.name = name
        api = kubernetes_config.new_client_from_config(str(kubeconfig))
        self.core, self.rbac = kubernetes.CoreV1Api(api), kubernetes.RbacAuthorizationV1Api(api)
        self._pods = 0
        resources = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        self.core.create_namespace({"metadata": {"name": name}})
        self.core.create_node({"metadata": {"name": name}, "status": {"allocatable": resources, "capacity": resources}})
        eventually(lambda: self.core.list_namespaced_service_account(name).items, "a ServiceAccount for pods")

    def place(self, scheduler_name: str) -> None:
        """Create a pod and wait until it has a node."""
        name = self.create(scheduler_name)
        eventually(lambda: self.node_of(name), f"{name} has a node")

    def create(self, scheduler_name: str) -> str:
        """Create a pod; returns its name."""
        self._pods += 1
        name = f"pod-{self._pods}"
        spec = {
            "schedulerName": scheduler_name,
            "containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "10m"}}}],
            "tolerations": [{"operator": "Exists"}],
        }
        self.core.create_namespaced_pod(self.name, {"metadata": {"name": name}, "spec": spec})
        return name

    def node_of(self, pod: str) -> str | None:
        """The node that a pod has."""
        node: str | None = self.core.read_namespaced_pod(pod, self.name).spec.node_name
        return node

    def remove(self) -> None:
        """Delete what was made."""
        self.core.delete_node(self.name)
        self.core.delete_namespace(self.name)
