"""A snapshot of a real cluster: complete, read with a read-only connection, without what is nobody's business, and
usable by simulate."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from kubernetes import client as kubernetes_client, config as kubernetes_config

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.support.browser import served_pages
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
"""


INSTALLED = (
    CONFIGURATION
    + """
  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: "http://prometheus:9090", token: hunter2}}
"""
)


def installed() -> tuple[dict[str, Any], dict[str, Any]]:
    """The ConfigMap and the Deployment of a scheduler, which has no pod."""
    labels = {"app": "scheduler"}
    container = {"name": "c", "image": "registry.example/kube-scheduler:v1", "command": ["/bin/kube-scheduler"]}
    volume = {"name": "etckubernetes", "configMap": {"name": "active"}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": [volume]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    config_map = {"metadata": {"name": "active"}, "data": {"config.yaml": INSTALLED}}
    return config_map, {"metadata": {"name": "mine"}, "spec": spec}


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    """Five simulated nodes, and a scheduler's Deployment."""
    spec = ClusterSpec(
        name="snapshot",
        state_root=cluster_state_root,
        nodes=5,
        real_nodes=0,
        prometheus=False,
        default_scheduler=False,
        tools=False,
    )
    with LocalCluster(spec) as cluster:
        api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        config_map, deployment = installed()
        kubernetes_client.CoreV1Api(api).create_namespaced_config_map("default", config_map)
        kubernetes_client.AppsV1Api(api).create_namespaced_deployment("default", deployment)
        yield cluster


@pytest.fixture
def api(cluster: LocalCluster) -> Iterator[kubernetes_client.CoreV1Api]:
    """Pods that a test makes in `default` go with it."""
    api = kubernetes_client.CoreV1Api(kubernetes_config.new_client_from_config(str(cluster.kubeconfig)))
    yield api
    api.delete_collection_namespaced_pod("default", grace_period_seconds=0)
    eventually(lambda: not api.list_namespaced_pod("default").items, "the test's pods are gone")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "secondary_scheduler.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "registry.example/app:v1",
        "command": ["/bin/serve", "--password=hunter2"],
        "env": [{"name": "TOKEN", "value": "hunter2"}],
        "resources": {"limits": {"cpu": "250m", "memory": "64Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "hunter2",
                "example.com/note": "hunter2",
                "scheduling.k8s.io/kept": "yes",
            },
        },
        "spec": {
            "schedulerName": "secondary-scheduler",
            "nodeSelector": {"type": "kwok"},
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "containers": [container],
            **spec,
        },
    }


def test_a_snapshot_holds_what_the_cluster_has_and_simulate_decides_on_it(
    cluster: LocalCluster, api: kubernetes_client.CoreV1Api, tmp_path: Path
) -> None:
    api.create_namespaced_secret("default", {"metadata": {"name": "secret"}, "stringData": {"token": "hunter2"}})
    api.create_namespaced_pod("default", pod("pending"))
    api.create_namespaced_pod("default", pod("placed", nodeName="sim-003"))

    files = {form: tmp_path / f"snapshot.{form}" for form in ("json", "yaml")}
    for form, file in files.items():
        done = run("snapshot", "--kubeconfig", cluster.readonly_kubeconfig, "--file", file, "-o", form)
        assert done.returncode == 0, done.stderr
        assert "5 Node" in done.stderr
        assert "hunter2" not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0

    items = json.loads(files["json"].read_text())["items"]
    objects = {(item["kind"], item["metadata"]["name"]): item for item in items}
    assert {name for kind, name in objects if kind == "Node"} == {f"sim-00{number}" for number in range(5)}
    assert ("Namespace", "kube-system") in objects
    assert ("PriorityClass", "system-node-critical") in objects
    assert not [kind for kind, _ in objects if kind in ("Secret", "ConfigMap")]
    placed = objects["Pod", "placed"]
    assert placed["spec"]["nodeName"] == "sim-003"
    assert placed["metadata"]["annotations"] == {"scheduling.k8s.io/kept": "yes"}
    assert placed["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "250m", "memory": "64Mi"}

    results = []
    for file in files.values():
        decided = run("simulate", "--snapshot", file, "-o", "json")
        assert decided.returncode == 0, decided.stderr
        assert "configuration: of the scheduler default/mine, as the snapshot has it" in decided.stderr
        results.append(json.loads(decided.stdout))
    assert results[0] == results[1]
    (decision,) = results[0]["decisions"]
    assert decision["pod"] == "default/pending"
    assert decision["node"] in decision["nodes"]
    assert set(decision["nodes"]) == {f"sim-00{number}" for number in range(5)}
    assert all(node["feasible"] for node in decision["nodes"].values())

    without = tmp_path / "without.json"
    done = run("snapshot", "--kubeconfig", cluster.readonly_kubeconfig, "--file", without, "--no-configuration")
    assert (done.returncode, "SchedulerConfiguration" in without.read_text()) == (0, False)
    answered = run("simulate", "--snapshot", without, "--kubeconfig", cluster.readonly_kubeconfig, "-o", "json")
    assert "configuration: of the scheduler default/mine, as https://127.0.0.1" in answered.stderr
    assert json.loads(answered.stdout) == results[0]


def test_ui_on_a_cluster_decides_about_the_pods_of_its_scheduler(
    cluster: LocalCluster, api: kubernetes_client.CoreV1Api, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        api.create_namespaced_pod("default", pod(name))
    with served_pages(["--kubeconfig", str(cluster.readonly_kubeconfig)], tmp_path) as address:
        page = requests.get(f"{address}/decisions", timeout=60).text
    assert "default/first" in page
    assert "default/second" in page
    assert "configuration: of the scheduler default/mine, as https://127.0.0.1" in (tmp_path / "ui.err").read_text()


def test_a_cluster_that_does_not_answer_is_one_line_and_leaves_no_file(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
            }
        )
    )
    result = run("snapshot", "--kubeconfig", kubeconfig, "--file", tmp_path / "snapshot.json")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("secondary-scheduler: http://127.0.0.1:9: GET /api/v1/nodes:")
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["kubeconfig"]


def test_a_recording_holds_what_happens_to_a_real_cluster_and_plan_replays_it(
    cluster: LocalCluster, api: kubernetes_client.CoreV1Api, tmp_path: Path
) -> None:
    file, config = tmp_path / "cluster.recording", tmp_path / "config.yaml"
    config.write_text(CONFIGURATION)

    def happened() -> list[tuple[str, str, str]]:
        lines = [json.loads(line) for line in file.read_text().splitlines()[1:] if line.endswith("}")]
        pods = [line for line in lines if line.get("object", {}).get("kind") == "Pod"]
        return [
            (line["type"], line["object"]["metadata"]["name"], line["object"].get("spec", {}).get("nodeName", ""))
            for line in pods
        ]

    arguments = ("snapshot", "--record", "10m", "--kubeconfig", cluster.readonly_kubeconfig, "--file", file)
    command = [sys.executable, "-m", "secondary_scheduler.cli", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(file.exists, "the snapshot is in the file")
            api.create_namespaced_pod("default", pod("waits"))
            api.create_namespaced_pod("default", pod("goes"))
            eventually(lambda: ("ADDED", "goes", "") in happened(), "it is recorded that a pod came")
            target = {"apiVersion": "v1", "kind": "Node", "name": "sim-002"}
            binding = {"metadata": {"name": "goes"}, "target": target}
            api.create_namespaced_pod_binding("goes", "default", binding, _preload_content=False)
            eventually(lambda: ("MODIFIED", "goes", "sim-002") in happened(), "it is recorded that it was bound")
            api.delete_namespaced_pod("goes", "default", grace_period_seconds=0)
            eventually(lambda: ("DELETED", "goes", "") in happened(), "it is recorded that it went")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    assert "hunter2" not in file.read_text()
    assert json.loads(file.read_text().splitlines()[-1])["message"] == "interrupted"
