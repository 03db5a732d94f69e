"""Starting and stopping: side by side, port in use, interrupted, crashed.

Nothing may stay behind, and nobody else's process may end.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from devcluster import processes
from devcluster.cluster import LocalCluster
from devcluster.errors import PortTakenError, ServiceError
from devcluster.spec import ClusterSpec
from tests.support.cluster import BARE, MakeCluster
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

Start = Callable[..., subprocess.Popen[str]]


def marked(state_dir: Path) -> set[int]:
    """All processes of a cluster, wherever they stand in the process tree."""
    marker = f"{processes.CLUSTER_MARKER}={state_dir}".encode()
    pids = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (process / "environ").read_bytes().split(b"\0"):
                pids.add(int(process.name))
        except OSError:
            continue
    return pids


def entries(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "clusters").iterdir()) if (root / "clusters").exists() else []


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Run `secondary-scheduler cluster …` with a state root of the test's own."""
    running: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "secondary_scheduler.cli", "cluster", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "SECONDARY_SCHEDULER_HOME": str(tmp_path)},
        )
        running.append(process)
        return process

    yield run
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()
    ended = run("down", "--all")
    ended.communicate()


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, errors


def log_of(root: Path, service: str) -> Path:
    return root / "clusters" / "dev" / "logs" / f"{service}.log"


@pytest.mark.parametrize(
    ("service", "number"),
    [("etcd", signal.SIGHUP), ("kube-apiserver", signal.SIGTERM), ("kwok", signal.SIGINT)],
)
def test_an_interrupted_up_leaves_nothing_behind(
    start: Start, tmp_path: Path, service: str, number: signal.Signals
) -> None:
    up = start("up", "--nodes", "3", "--real-nodes", "1")
    eventually(log_of(tmp_path, service).exists, f"{service} is being started")
    up.send_signal(number)
    up.send_signal(number)
    code, errors = finish(up)
    assert code == 130
    assert errors.splitlines()[-1] == "secondary-scheduler: interrupted; everything unfinished was removed"
    assert "Traceback" not in errors
    assert entries(tmp_path) == []
    assert marked(tmp_path / "clusters" / "dev") == set()


@pytest.mark.slow
def test_up_after_a_crash_removes_leftovers_and_starts_again(start: Start, tmp_path: Path) -> None:
    state_dir = tmp_path / "clusters" / "dev"
    up = start("up", "--nodes", "2", "--real-nodes", "0")
    eventually(log_of(tmp_path, "kube-apiserver").exists, "kube-apiserver is being started")
    up.kill()
    up.wait()
    left = marked(state_dir)
    assert left
    code, errors = finish(start("up", "--nodes", "2", "--real-nodes", "0"))
    assert code == 0, errors
    assert "removing leftovers of an earlier cluster" in errors
    assert not left & marked(state_dir)
    assert LocalCluster.attach("dev", tmp_path).status().running
    code, _ = finish(start("down"))
    assert code == 0
    assert entries(tmp_path) == []
    assert marked(state_dir) == set()


@pytest.mark.slow
def test_up_replaces_a_cluster_with_a_dead_service(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(**BARE)
    before = {service.name: service.pid for service in cluster.status().services}
    os.kill(before["kube-controller-manager"], signal.SIGKILL)
    eventually(lambda: not cluster.status().running, "the death is noticed")
    assert cluster.start(), "it was started again"
    assert cluster.status().running
    assert not set(before.values()) & {service.pid for service in cluster.status().services}


def test_a_port_in_use_is_reported_in_one_line_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        code, errors = finish(start("up", "--nodes", "1", "--api-server-port", str(port)))
    assert code == 1
    holder = f"{Path('/proc/self/comm').read_text().strip()} (process {os.getpid()})"
    assert errors == (
        f"secondary-scheduler: kube-apiserver cannot listen on 127.0.0.1:{port}: the port is in use by {holder}; "
        f"stop that process or choose another port\n"
    )
    assert entries(tmp_path) == []


def test_a_service_that_fails_stops_the_cluster_and_reports_why(
    make_cluster: MakeCluster, cluster_state_root: Path
) -> None:
    with pytest.raises(ServiceError, match=r"kube-apiserver exited during startup: .*unknown flag: --no-such-flag"):
        make_cluster(**BARE, api_server_flags=("--no-such-flag",), name="failing")
    assert not (cluster_state_root / "clusters" / "failing").exists()
    assert marked(cluster_state_root / "clusters" / "failing") == set()


def test_clusters_run_side_by_side_and_stop_independently(make_cluster: MakeCluster) -> None:
    first, second = make_cluster(**BARE), make_cluster(**BARE)
    assert first.api_server != second.api_server
    crossed = administrator(first)
    crossed.verify = str(second.layout.pki("ca.crt"))
    stranger = crossed.get(f"{second.api_server}/api/v1/nodes", timeout=5)
    assert stranger.status_code == 401, "one cluster's administrator is nobody in another"
    first.stop()
    assert second.status().running
    assert marked(first.state_dir) == set()
    with pytest.raises(PortTakenError):
        make_cluster(**BARE, api_server_port=int(second.api_server.rpartition(":")[2]))
    assert second.status().running


def test_a_second_command_on_a_cluster_in_use_is_refused(start: Start, tmp_path: Path) -> None:
    up = start("up", "--nodes", "1", "--real-nodes", "0")
    eventually(log_of(tmp_path, "etcd").exists, "the first command is at work")
    # It stands still meanwhile: on a busy machine it would be ready, or give up, before the second one looks.
    up.send_signal(signal.SIGSTOP)
    code, errors = finish(start("down"))
    assert (code, errors) == (
        1,
        f"secondary-scheduler: another command (process {up.pid}) is using cluster dev: wait for it, or stop it\n",
    )
    up.send_signal(signal.SIGINT)
    up.send_signal(signal.SIGCONT)
    code, errors = finish(up)
    assert code == 130, errors


SLEEP = "print('good night', flush=True); import time; time.sleep(600)"
SLEEPER = {"example.com/sleeper": {"executables": {"/bin/sleeper": [sys.executable, "-c", SLEEP]}}}


def sleeper_pids(cluster: LocalCluster) -> set[int]:
    """Processes of the sleeper's pods, recognized by their command line, which nothing else here has."""
    pids = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if SLEEP.encode() in words and f"token-{cluster.name}".encode() in words:
            pids.add(int(process.name))
    return pids


def administrator(cluster: LocalCluster) -> requests.Session:
    api = requests.Session()
    api.trust_env = False
    api.verify = str(cluster.layout.pki("ca.crt"))
    api.cert = (str(cluster.layout.pki("admin.crt")), str(cluster.layout.pki("admin.key")))
    return api


def run_sleeper(cluster: LocalCluster) -> set[int]:
    api = administrator(cluster)
    container = {"name": "c", "image": "example.com/sleeper:1", "command": ["/bin/sleeper", f"token-{cluster.name}"]}
    pod: dict[str, Any] = {"metadata": {"name": "sleeper"}, "spec": {"containers": [container]}}
    pods = f"{cluster.api_server}/api/v1/namespaces/default/pods"
    assert api.post(pods, json=pod).status_code == 201
    eventually(
        lambda: api.get(f"{pods}/sleeper").json()["status"].get("phase") == "Running" and bool(sleeper_pids(cluster)),
        "the pod runs as a process",
    )
    return sleeper_pids(cluster)


def real_node(make_cluster: MakeCluster, name: str) -> LocalCluster:
    return make_cluster(nodes=0, real_nodes=1, prometheus=False, kwok=False, images=SLEEPER, name=name)


@pytest.mark.slow
def test_a_real_nodes_pods_have_logs_and_stop_with_the_cluster(make_cluster: MakeCluster) -> None:
    cluster = real_node(make_cluster, "pods")
    assert run_sleeper(cluster)
    log = f"{cluster.api_server}/api/v1/namespaces/default/pods/sleeper/log"
    assert administrator(cluster).get(log).text == "good night\n", "the API server reaches the node for logs"
    cluster.stop()
    assert sleeper_pids(cluster) == set()
    assert not cluster.state_dir.exists()


@pytest.mark.slow
def test_down_stops_pods_whose_node_agent_was_killed(make_cluster: MakeCluster) -> None:
    cluster = real_node(make_cluster, "orphans")
    assert run_sleeper(cluster)
    agent = next(service for service in cluster.status().services if service.name == "node-real-0")
    os.kill(agent.pid, signal.SIGKILL)
    cluster.stop()
    assert sleeper_pids(cluster) == set()


@pytest.mark.slow
def test_down_all_stops_every_cluster_of_this_root(start: Start, tmp_path: Path) -> None:
    clusters = [LocalCluster(ClusterSpec(name=name, state_root=tmp_path, **BARE)) for name in ("one", "two")]
    for cluster in clusters:
        cluster.start()
    code, errors = finish(start("down", "--all"))
    assert code == 0, errors
    assert "stopping cluster 'one'" in errors
    assert "stopping cluster 'two'" in errors
    assert entries(tmp_path) == []
    assert marked(clusters[0].state_dir) | marked(clusters[1].state_dir) == set()
