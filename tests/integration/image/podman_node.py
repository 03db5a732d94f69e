"""A node whose pods are real containers: just enough of a kubelet for the pods of our own Deployments.

Everything that the pods' specs ask of a container and that podman can give is given: image, command, arguments, user,
read-only root, dropped capabilities, environment, volumes, projected token. Only networks are the host's: a pod's
address is one of 127.0.0.0/8, which the scheduler is told as `--bind-address`, as the node agent of the local cluster
does.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import ssl
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from scheduler.kube.client import Conflict, NotFound
from tests.integration.operator.support import Api

NAME = "podman-0"
_NEVER_CHECKED = ssl._create_unverified_context()
# What runc can do where limits may not be raised above the shell's and cgroups are shared with others.
EVERYWHERE = ("--runtime", "runc", "--network", "host", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")


def podman(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, f"podman {' '.join(arguments)}: {done.stderr}"
    return done.stdout + done.stderr


def run_once(image: str, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A container without any right, to its end."""
    restricted = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--rm")
    return subprocess.run(
        ["podman", "run", *EVERYWHERE, *restricted, *options, image, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class PodmanNode:
    """Runs every pod of a namespace that a Deployment of ours made, whatever node it is meant for."""

    def __init__(self, kubeconfig: Path, namespace: str, directory: Path) -> None:
        cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        self._server = urlsplit(cluster["server"])
        self._authority = base64.b64decode(cluster["certificate-authority-data"])
        self.kubeconfig = kubeconfig
        self._api, self._directory = Api(kubeconfig, namespace), directory
        self._addresses = (f"127.{64 + os.getpid() % 128}.{os.getpid() // 128 % 250}.{n}" for n in itertools.count(10))
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self.containers: dict[str, str] = {}
        """Container by the pod's name."""
        self.addresses: dict[str, str] = {}

    def start(self) -> None:
        resources = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), "2026-01-01T00:00:00Z")
        status = {"capacity": resources, "allocatable": resources, "conditions": [ready | times]}
        self._api.call("POST", "/api/v1/nodes", {"metadata": {"name": NAME}})
        path = f"/api/v1/nodes/{NAME}/status"
        self._api.call("PATCH", path, {"status": status}, "application/merge-patch+json")
        self._thread.start()

    def stop(self) -> dict[str, int]:
        """End the containers as a kubelet does; returns their exit codes by the pod's name."""
        self._end.set()
        self._thread.join(60)
        codes = {}
        while self.containers:
            pod, container = self.containers.popitem()
            podman("stop", "--time", "25", container)
            codes[pod] = int(podman("wait", container).split()[-1])
            podman("rm", "--force", container)
        self._api.close()
        return codes

    def logs(self) -> str:
        return "\n".join(
            f"--- {pod}\n{podman('logs', container, check=False)}" for pod, container in self.containers.items()
        )

    def inspect(self, pod: str) -> dict[str, Any]:
        description: dict[str, Any] = json.loads(podman("inspect", self.containers[pod]))[0]
        return description

    def _loop(self) -> None:
        while not self._end.wait(0.2):
            for pod in self._api.items("pods"):
                # Objects come and go under the feet of this loop.
                with contextlib.suppress(NotFound, Conflict):
                    self._treat(pod)

    def _treat(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if name not in self.containers:
            if pod["metadata"].get("ownerReferences") and not pod["spec"].get("nodeName"):
                binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": NAME}}
                self._api.call("POST", self._api.path("pods", name) + "/binding", binding)
                self.addresses[name] = next(self._addresses)
                self.containers[name] = self._run(pod, self.addresses[name])
        elif not any(c["type"] == "Ready" for c in pod["status"].get("conditions", []) if c["status"] == "True"):
            self._report_if_ready(pod, self.addresses[name])

    def _report_if_ready(self, pod: dict[str, Any], address: str) -> None:
        (container,) = pod["spec"]["containers"]
        probe = container["readinessProbe"]["httpGet"]
        url = f"{probe['scheme'].lower()}://{address}:{probe['port']}{probe['path']}"
        try:
            with urllib.request.urlopen(url, timeout=2, context=_NEVER_CHECKED):
                pass
        except OSError:
            return
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        running = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}}}
        status = {
            "phase": "Running",
            "podIP": address,
            "startTime": now,
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("Ready", "ContainersReady")
            ],
            "containerStatuses": [{"name": container["name"], "image": container["image"], "imageID": "", **running}],
        }
        self._api.patch("pods", pod["metadata"]["name"], {"status": status}, "status")

    def _run(self, pod: dict[str, Any], address: str) -> str:
        (container,), security = pod["spec"]["containers"], pod["spec"]["securityContext"]
        own = container["securityContext"]
        assert own["readOnlyRootFilesystem"], own
        assert not own["allowPrivilegeEscalation"], own
        assert own["capabilities"] == {"drop": ["ALL"]}, own
        options = ["--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
        options += ["--user", str(security["runAsUser"])]
        for name, value in self._environment(pod, container, address).items():
            options += ["--env", f"{name}={value}"]
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            options += self._mount(pod, volumes[mount["name"]], mount["mountPath"])
        arguments = [*container["command"], *container.get("args", [])]
        if arguments[0] == "/bin/kube-scheduler":
            arguments.append(f"--bind-address={address}")
        command = ["run", "--detach", "--pull", "never", *EVERYWHERE, *options]
        # As the kubelet does: `command` takes the place of the entry point.
        command += ["--entrypoint", arguments[0], container["image"], *arguments[1:]]
        return podman(*command).split()[-1]

    def _environment(self, pod: dict[str, Any], container: dict[str, Any], address: str) -> dict[str, str]:
        metadata = pod["metadata"]
        fields = {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata["namespace"],
            "status.podIP": address,
        }
        variables = {
            entry["name"]: entry["value"] if "value" in entry else fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            for entry in container.get("env", [])
        }
        server = {
            "KUBERNETES_SERVICE_HOST": str(self._server.hostname),
            "KUBERNETES_SERVICE_PORT": str(self._server.port),
        }
        return {**variables, **server}

    def _mount(self, pod: dict[str, Any], volume: dict[str, Any], path: str) -> list[str]:
        if "emptyDir" in volume:
            return ["--tmpfs", f"{path}:rw,mode=1777"]
        directory = self._directory / pod["metadata"]["name"] / volume["name"]
        directory.mkdir(parents=True)
        for name, content in self._content(pod, volume).items():
            (directory / name).write_bytes(content)
        return ["--volume", f"{directory}:{path}:ro"]

    def _content(self, pod: dict[str, Any], volume: dict[str, Any]) -> dict[str, bytes]:
        if "configMap" in volume:
            data = self._api.get("configmaps", volume["configMap"]["name"])["data"]
            return {key: value.encode() for key, value in data.items()}
        if "secret" in volume:
            data = self._api.get("secrets", volume["secret"]["secretName"])["data"]
            return {key: base64.b64decode(value) for key, value in data.items()}
        assert "projected" in volume, volume
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        path = self._api.path("serviceaccounts", pod["spec"]["serviceAccountName"]) + "/token"
        return {
            "token": self._api.call("POST", path, request)["status"]["token"].encode(),
            "ca.crt": self._authority,
            "namespace": pod["metadata"]["namespace"].encode(),
        }


def unusable() -> str:
    """Why no container can be run here; empty if one can."""
    if shutil.which("podman") is None:
        return "podman is not on PATH"
    done = subprocess.run(["podman", "info"], capture_output=True, text=True, timeout=60, check=False)
    return "" if done.returncode == 0 else f"podman does not work here: {done.stderr.strip()[-200:]}"
