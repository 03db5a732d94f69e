"""The agent with podman: a container gets what its pod's spec asks. The image is the operator's, for its Python.

The whole stack in containers: `tests/integration/image/test_image.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import LocalCluster
from devcluster.node_agent.podman import PodmanUnavailableError, find_podman, remove_containers
from scheduler import __version__
from tests.integration.node_agent.helpers import NODE, Api, RunningAgent, start_agent_in, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow]
IMAGE = f"localhost/secondary-scheduler/operator:{__version__}"
SLEEP = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("up", flush=True)
time.sleep(600)
"""
LOOK = """
import json, os, pathlib, socket, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "groups": sorted(os.getgroups()), "host": socket.gethostname(),
    "capabilities": int(status["CapBnd"], 16), "noNewPrivileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "variables": [os.environ[name] for name in ("GREETING", "LINES", "WHO")],
    "settings": open("/settings/a").read(), "secret": open("/hidden/key").read(),
    "token": open("/var/run/secrets/kubernetes.io/serviceaccount/token").read().count("."),
    "writable": [place for place in ("/", "/scratch", "/settings", "/tmp") if os.access(place, os.W_OK)],
    "group": os.stat("/hidden/key").st_gid, "labels": open("/pod/labels").read(), "cwd": os.getcwd(),
}))
open("/dev/termination-log", "w").write("done")
sys.exit(3)
"""


@pytest.fixture(scope="module", autouse=True)
def python() -> str:
    """The interpreter in the image; no test here without podman and the image."""
    try:
        host = find_podman()
        if host.missing_images([IMAGE]):
            pytest.skip(f"podman has no image {IMAGE}: make image")
    except PodmanUnavailableError as error:
        pytest.skip(str(error))
    label = '--format={{index .Labels "io.secondary-scheduler.python"}}'
    return subprocess.run(
        [host.program, "image", "inspect", label, IMAGE], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


@pytest.fixture
def agent(node_cluster: LocalCluster, tmp_path: Path) -> Iterator[RunningAgent]:
    """An agent with podman."""
    started = start_agent_in(node_cluster, tmp_path, "--containers", "podman")
    yield started
    if started.process.poll() is None:
        started.end()
    remove_containers("podman", started.state_dir)


def names(agent: RunningAgent) -> list[str]:
    """Containers of the agent that podman knows."""
    mark = f"--filter=label=io.secondary-scheduler.node-agent={agent.state_dir}"
    command = ["podman", "ps", "--all", "--format={{.Names}}", mark]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()


def test_a_container_gets_what_its_pod_asks_for(agent: RunningAgent, api: Api, python: str) -> None:
    api.core.create_namespaced_config_map(api.namespace, {"metadata": {"name": "c"}, "data": {"a": "1", "l": "x\ny"}})
    api.core.create_namespaced_secret(api.namespace, {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    label = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    api.pod(
        securityContext={"runAsUser": 1234, "runAsGroup": 55, "fsGroup": 77, "supplementalGroups": [88]},
        volumes=[
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "e", "emptyDir": {}},
            {"name": "d", "downwardAPI": {"items": [label]}},
        ],
        main={
            "image": IMAGE,
            "command": [python, "-c", LOOK],
            "workingDir": "/scratch",
            "env": [
                {"name": "GREETING", "value": "a b=c"},
                {"name": "LINES", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "l"}}},
                {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "securityContext": {
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumeMounts": [
                {"name": "c", "mountPath": "/settings"},
                {"name": "s", "mountPath": "/hidden"},
                {"name": "e", "mountPath": "/scratch"},
                {"name": "d", "mountPath": "/pod"},
            ],
        },
    )
    ended = api.terminated()
    log = log_of(api)
    assert (ended["exitCode"], ended["reason"], ended.get("message")) == (3, "Error", "done"), (ended, log)
    assert json.loads(log) == {
        "uid": 1234, "gid": 55, "groups": [55, 77, 88], "host": "p", "capabilities": 0, "noNewPrivileges": "1",
        "seccomp": "2", "variables": ["a b=c", "x\ny", "p"], "settings": "1", "secret": "hidden", "token": 2,
        "writable": ["/scratch"], "group": 77 if os.geteuid() == 0 else 0, "labels": 'app="p"', "cwd": "/scratch",
    }  # fmt: skip
    assert ended["containerID"].startswith("podman://")
    wait_for(lambda: not names(agent), "the ended container to be removed")


def log_of(api: Api, **options: Any) -> str:
    """The log as `kubectl logs` gives it."""
    text = api.core.read_namespaced_pod_log("p", api.namespace, _preload_content=False, **options).data
    return bytes(text).decode()


def test_a_container_that_fails_is_started_again_and_keeps_its_last_state(
    agent: RunningAgent, api: Api, python: str
) -> None:
    api.pod(
        restartPolicy="Always", main={"image": IMAGE, "command": [python, "-c", "print('run'); raise SystemExit(5)"]}
    )
    wait_for(lambda: api.container().get("restartCount", 0) >= 1, "the restart")
    wait_for(lambda: api.container()["lastState"].get("terminated", {}).get("exitCode") == 5, "the last state")
    assert "run\n" in wait_for(lambda: log_of(api, previous=True), "the previous log")


def test_probes_run_in_the_container_and_deletion_gives_it_its_grace(
    agent: RunningAgent, api: Api, python: str
) -> None:
    probe = {"exec": {"command": [python, "-c", "raise SystemExit(0)"]}, "periodSeconds": 1, "timeoutSeconds": 30}
    api.pod(
        terminationGracePeriodSeconds=30,
        main={"image": IMAGE, "command": [python, "-c", SLEEP], "readinessProbe": probe},
    )
    api.wait_running()
    wait_for(lambda: "up" in log_of(api), "the start")
    (name,) = names(agent)
    assert name.startswith(f"k8s_main_p_{api.namespace}_")
    assert api.delete() < 30
    assert names(agent) == []


def test_memory_beyond_the_limit_ends_the_container(agent: RunningAgent, api: Api, python: str) -> None:
    if "memory" not in find_podman().controllers:
        pytest.skip("containers cannot be limited here")
    limits = {"limits": {"memory": "64Mi"}}
    api.pod(main={"image": IMAGE, "command": [python, "-c", "bytearray(512 << 20)"], "resources": limits})
    ended = api.terminated()
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_command_that_does_not_exist_and_an_image_that_is_not_there_are_told(agent: RunningAgent, api: Api) -> None:
    api.pod(main={"image": IMAGE, "command": ["/nothing"]})
    ended = api.terminated()
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert '"/nothing"' in ended["message"]
    api.pod("absent", main={"image": "registry.example.com/none:1"})
    api.wait_for_event("Failed", "podman has no such image on this machine: build it (make image)")
    api.pod("never", main={"image": "registry.example.com/none:1", "imagePullPolicy": "Never"})
    api.wait_for_event("ErrImageNeverPull", "is not present with pull policy of Never")
    api.pod("option", main={"image": "--privileged"})
    wait_for(lambda: "waiting" in api.container("option").get("state", {}), "the refusal")


def test_containers_of_a_killed_agent_are_replaced_by_its_successor(
    node_cluster: LocalCluster, tmp_path: Path, agent: RunningAgent, api: Api, python: str
) -> None:
    api.pod(restartPolicy="Always", main={"image": IMAGE, "command": [python, "-c", SLEEP]})
    api.wait_running()
    (before,) = names(agent)
    agent.end(signal.SIGKILL)
    assert names(agent) == [before]
    successor = start_agent_in(node_cluster, tmp_path, "--containers", "podman")
    try:
        wait_for(lambda: api.container().get("restartCount") == 1 and api.container()["ready"], "the restart")
        (after,) = names(successor)
        assert after != before
        node = api.core.read_node(NODE)
        assert node.metadata.annotations["secondary-scheduler.io/sandbox-tier"] == "podman"
        assert node.status.node_info.container_runtime_version.startswith("podman://")
    finally:
        assert successor.end() == 0
    assert names(successor) == []
