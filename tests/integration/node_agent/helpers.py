"""Starts agents under test; short helpers to describe pods and wait for them."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import kubernetes as k8s
import psutil

from devcluster.cluster import LocalCluster
from tests.support.waiting import PATIENCE_SECONDS

T = TypeVar("T")
NODE = "real-0"
PYTHON_IMAGE = "localhost/test/python"
ENVIRONMENT_VARIABLE = "NODE_AGENT_TEST"
MASKED = (Path(__file__).resolve(), Path(__file__).resolve().parents[2] / "support")
"""A file and a directory of this machine that pods must not see."""


def running(pid: int) -> bool:
    """Whether a process is alive (a zombie is not)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_for(probe: Callable[[], T], awaited: str) -> T:
    """Poll until probe returns something true; it may raise 404 meanwhile."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with contextlib.suppress(k8s.client.ApiException):
            result = probe()
            if result:
                return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE_SECONDS:g} s for {awaited}")
        time.sleep(0.1)


@dataclass
class RunningAgent:
    """One agent process."""

    process: subprocess.Popen[bytes]
    state_dir: Path
    log: Path

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal it and wait; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)

    def container_log(self, namespace: str, pod: str, container: str = "main") -> str:
        """A container's output so far."""
        path = self.state_dir / "logs" / f"{namespace}_{pod}_{container}.log"
        return path.read_text() if path.exists() else ""


def start_agent_in(cluster: LocalCluster, directory: Path, *options: str) -> RunningAgent:
    """Start an agent with its state below a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    images = directory / "images.json"
    python = [sys.executable]
    image = {"executables": {"/bin/python": python, "/bin/sh": ["/bin/sh"]}, "entrypoint": ["/bin/python"]}
    images.write_text(json.dumps({PYTHON_IMAGE: image, "localhost/test/numbered": {**image, "user": 65532}}))
    log = directory / "agent.log"
    command = [
        sys.executable, "-m", "devcluster.node_agent",
        "--kubeconfig", str(cluster.layout.node_kubeconfig(NODE)), "--node-name", NODE,
        "--state-dir", str(directory / "state"), "--image-map", str(images),
        "--pod-cidr-base", "127.201.0.0", "--backoff-base", "0.5",
        *(f"--mask={path}" for path in MASKED), *options,
    ]  # fmt: skip
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    agent = RunningAgent(process, directory / "state", log)
    try:
        wait_for(lambda: "registered node" in log.read_text() or process.poll() is not None, "the agent to register")
        assert process.poll() is None, log.read_text()
    except BaseException:
        process.kill()
        raise
    return agent


@dataclass
class Api:
    """The cluster as an administrator sees it, in a namespace of the test's own."""

    namespace: str
    core: Any
    apps: Any
    marker: str = field(default_factory=lambda: uuid.uuid4().hex)

    def pod(self, name: str = "p", **spec: Any) -> dict[str, Any]:
        """Create a pod on the node and return its manifest. ``main`` holds the fields of its only container."""
        main = {"name": "main", "image": PYTHON_IMAGE, **spec.pop("main", {})}
        main["env"] = [{"name": ENVIRONMENT_VARIABLE, "value": self.marker}, *main.get("env", [])]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "nodeName": NODE,
                "terminationGracePeriodSeconds": 1,
                "restartPolicy": "Never",
                "containers": [main],
                **spec,
            },
        }
        self.core.create_namespaced_pod(self.namespace, body)
        return body

    def status(self, name: str = "p") -> dict[str, Any]:
        """The pod's status as the API shows it."""
        pod = self.core.read_namespaced_pod(name, self.namespace)
        status: dict[str, Any] = k8s.client.ApiClient().sanitize_for_serialization(pod)["status"]
        return status

    def container(self, name: str = "p", container: str = "main") -> dict[str, Any]:
        """One container's status, empty while there is none."""
        status = self.status(name)
        known = [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]
        return next((status for status in known if status["name"] == container), {})

    def terminated(self, name: str = "p", container: str = "main") -> dict[str, Any]:
        """The container's terminated state, once it has ended."""
        return wait_for(
            lambda: self.container(name, container).get("state", {}).get("terminated"), f"{name}/{container} to end"
        )

    def wait_running(self, name: str = "p", container: str = "main") -> dict[str, Any]:
        """The container's status, once it is ready."""
        return wait_for(
            lambda: (status := self.container(name, container)).get("ready") and status,
            f"{name}/{container} to be ready",
        )

    def events(self, reason: str) -> list[str]:
        """Messages of the Events with a reason."""
        return [
            event.message for event in self.core.list_namespaced_event(self.namespace).items if event.reason == reason
        ]

    def wait_for_event(self, reason: str, words: str) -> None:
        """Wait for an Event with a reason and these words; Events may come after the status that they explain."""
        wait_for(lambda: [text for text in self.events(reason) if words in text], f"event {reason}: {words}")

    def delete(self, name: str = "p", **options: Any) -> float:
        """Delete a pod and wait until it is gone; the seconds that took."""
        began = time.monotonic()
        self.core.delete_namespaced_pod(name, self.namespace, **options)

        def absent() -> bool:
            try:
                self.core.read_namespaced_pod(name, self.namespace)
            except k8s.client.ApiException as error:
                return bool(error.status == 404)
            return False

        wait_for(absent, f"pod {name} to be gone")
        return time.monotonic() - began

    def processes(self) -> list[psutil.Process]:
        """Every process of this machine that one of the test's containers started."""
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(ENVIRONMENT_VARIABLE) == self.marker:
                    processes.append(process)
        return processes


def script(text: str) -> list[str]:
    """A container command that runs Python text."""
    return ["/bin/python", "-c", text]
