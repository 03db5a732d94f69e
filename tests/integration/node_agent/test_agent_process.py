"""The agent stopped, killed and restarted; and the sandbox tier without namespaces."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster.cluster import LocalCluster
from tests.integration.node_agent.helpers import NODE, Api, RunningAgent, script, start_agent_in, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SLEEP = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
TIERS = [pytest.param("mounts", marks=pytest.mark.real_mounts), "directory"]
Start = Callable[..., RunningAgent]


@pytest.fixture
def start(node_cluster: LocalCluster, tmp_path: Path) -> Iterator[Start]:
    """Start agents that share one state directory, one after the other."""
    agents: list[RunningAgent] = []

    def begin(*options: str) -> RunningAgent:
        agents.append(start_agent_in(node_cluster, tmp_path, *options))
        return agents[-1]

    yield begin
    for agent in agents:
        if agent.process.poll() is None:
            agent.end()


def node_ready(api: Api) -> str:
    conditions = {condition.type: condition.status for condition in api.core.read_node(NODE).status.conditions}
    return str(conditions["Ready"])


@pytest.mark.parametrize("tier", TIERS)
def test_an_agent_that_is_stopped_leaves_no_process(start: Start, api: Api, tier: str) -> None:
    agent = start("--sandbox", tier, "--shutdown-grace", "1")
    api.pod(restartPolicy="Always", terminationGracePeriodSeconds=60, main={"command": script(SLEEP)})
    wait_for(lambda: "up" in agent.container_log(api.namespace, "p"), "the start")
    assert api.core.read_node(NODE).metadata.annotations["secondary-scheduler.io/sandbox-tier"] == tier
    assert api.processes()
    assert agent.end() == 0
    assert api.processes() == []
    assert node_ready(api) == "False"


@pytest.mark.parametrize("tier", TIERS)
def test_a_killed_agents_pods_stop_and_its_successor_starts_them_again(start: Start, api: Api, tier: str) -> None:
    agent = start("--sandbox", tier)
    api.pod(restartPolicy="Always", main={"command": script(SLEEP)})
    api.wait_running()
    agent.end(signal.SIGKILL)
    wait_for(lambda: not api.processes(), "the pods' processes to die")
    start("--sandbox", tier)
    wait_for(lambda: api.container().get("restartCount") == 1 and api.container()["ready"], "the restart")
    assert api.container()["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert len(api.processes()) == 1
    assert node_ready(api) == "True"


def test_pod_deleted_while_no_agent_runs_is_removed_by_the_next(start: Start, api: Api) -> None:
    agent = start()
    api.pod(restartPolicy="Always", main={"command": script(SLEEP)})
    api.wait_running()
    agent.end(signal.SIGKILL)
    api.core.delete_namespaced_pod("p", api.namespace)
    start()
    wait_for(lambda: not api.core.list_namespaced_pod(api.namespace).items, "the pod to be gone")
    assert api.processes() == []


def test_directory_tier_rewrites_paths_and_gives_a_kubeconfig(start: Start, api: Api) -> None:
    agent = start("--sandbox", "directory")
    api.core.create_namespaced_config_map(
        api.namespace, {"metadata": {"name": "c"}, "data": {"config.yaml": "token: /secret/token\n"}}
    )
    api.core.create_namespaced_secret(api.namespace, {"metadata": {"name": "s"}, "stringData": {"token": "hidden"}})
    look = """
import os, sys
from kubernetes import client, config
named = open(sys.argv[1].removeprefix('--config=')).read().split()[1]
config.load_kube_config(os.environ['KUBECONFIG'])
review = client.AuthenticationV1Api().create_self_subject_review({})
print(open(named).read(), open(os.environ['FILE']).read(), review.status.user_info.username)
"""
    api.pod(
        volumes=[{"name": "c", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s"}}],
        main={
            "command": script(look),
            "args": ["--config=/etc/kubernetes/config.yaml"],
            "env": [{"name": "FILE", "value": "/secret/token"}],
            "volumeMounts": [{"name": "c", "mountPath": "/etc/kubernetes"}, {"name": "s", "mountPath": "/secret"}],
        },
    )
    assert api.terminated()["exitCode"] == 0, agent.container_log(api.namespace, "p")
    expected = f"hidden hidden system:serviceaccount:{api.namespace}:default"
    assert agent.container_log(api.namespace, "p").strip() == expected


def run_agent(cluster: LocalCluster, directory: Path, images: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run an agent that is expected to give up at once."""
    (directory / "bad.json").write_text(images)
    command = [
        sys.executable, "-m", "devcluster.node_agent", "--kubeconfig", str(cluster.kubeconfig),
        "--node-name", NODE, "--state-dir", str(directory / "state"), "--image-map", str(directory / "bad.json"),
        *options,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def test_bad_image_map_is_refused_with_its_place(node_cluster: LocalCluster, tmp_path: Path) -> None:
    done = run_agent(node_cluster, tmp_path, '{"a": {"executables": {"/bin/x": "python"}}}')
    place = f"image map {tmp_path}/bad.json: ['a']['executables']['/bin/x']"
    assert (done.returncode, done.stderr) == (4, f"node-agent: {place}: Input should be a valid array\n")


def test_second_agent_on_the_same_state_is_refused(start: Start, node_cluster: LocalCluster, tmp_path: Path) -> None:
    start()
    done = run_agent(node_cluster, tmp_path, "{}")
    assert done.returncode == 1
    assert done.stderr == (
        f"node-agent: state directory {tmp_path}/state is in use by another node agent; give each its own --state-dir\n"
    )


def test_pod_network_outside_loopback_is_refused(node_cluster: LocalCluster, tmp_path: Path) -> None:
    done = run_agent(node_cluster, tmp_path, "{}", "--pod-cidr-base", "10.0.0.0")
    assert done.returncode == 1
    assert "10.0.0.0 is not in 127.0.0.0/8" in done.stderr
    assert len(done.stderr.splitlines()) == 1
