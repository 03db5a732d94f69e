"""A whole cluster: the promises of `cluster up`, checked from outside by command line and HTTP."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests
import yaml

from devcluster import processes
from devcluster.cluster import LocalCluster
from devcluster.load_generator import LoadClient
from devcluster.spec import ClusterSpec
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.integration]

NODES = 20
T = TypeVar("T")


def command(root: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "secondary_scheduler.cli", "cluster", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "SECONDARY_SCHEDULER_HOME": str(root)},
        **options,
    )


def session(cluster: LocalCluster) -> requests.Session:
    opened = requests.Session()
    opened.trust_env = False
    opened.verify = str(cluster.layout.pki("ca.crt"))
    opened.cert = (str(cluster.layout.pki("admin.crt")), str(cluster.layout.pki("admin.key")))
    return opened


def eventually(look: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not wanted(seen := look()):
        assert time.monotonic() < deadline, f"after {PATIENCE_SECONDS:g} s it is still {seen!r}"
        time.sleep(0.1)
    return seen


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    local_cluster = LocalCluster(
        ClusterSpec(name="whole", nodes=NODES, real_nodes=1, tools=False, state_root=cluster_state_root)
    )
    with local_cluster:
        yield local_cluster


def query(cluster: LocalCluster, expression: str) -> dict[str, float]:
    answer = requests.get(
        f"{cluster.prometheus_url}/api/v1/query",
        params={"query": expression},
        headers={"Authorization": f"Bearer {cluster.prometheus_token_file.read_text()}"},
        verify=str(cluster.prometheus_ca_file),
        timeout=10,
    )
    assert answer.status_code == 200
    return {sample["metric"]["instance"]: float(sample["value"][1]) for sample in answer.json()["data"]["result"]}


def all_nodes() -> set[str]:
    return {*(f"sim-{index:03d}" for index in range(NODES)), "real-0"}


def test_status_shows_where_everything_is(cluster: LocalCluster) -> None:
    result = command(cluster.spec.state_root, "status", "--name", "whole", "-o", "json")
    assert (result.returncode, result.stderr) == (0, "")
    status = json.loads(result.stdout)
    assert {key: status[key] for key in ("name", "running", "kubeconfig", "apiServer", "prometheus", "stateDir")} == {
        "name": "whole",
        "running": True,
        "kubeconfig": str(cluster.kubeconfig),
        "apiServer": cluster.api_server,
        "prometheus": cluster.prometheus_url,
        "stateDir": str(cluster.state_dir),
    }
    assert {service["name"] for service in status["services"]} == {
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
        "load-generator",
        "node-real-0",
        "prometheus",
        "prometheus-gateway",
    }


def test_all_nodes_are_ready_when_up_returns_and_only_simulated_ones_are_tainted(cluster: LocalCluster) -> None:
    nodes = session(cluster).get(f"{cluster.api_server}/api/v1/nodes").json()["items"]
    assert {node["metadata"]["name"] for node in nodes} == all_nodes()
    for node in nodes:
        ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"]
        assert ready == ["True"], node["metadata"]["name"]
        taints = [taint["key"] for taint in node["spec"].get("taints", [])]
        simulated = node["metadata"]["labels"]["type"] == "kwok"
        assert taints == (["kwok.x-k8s.io/node"] if simulated else [])
    sizes = [node["metadata"]["labels"].get("secondary-scheduler.io/size") for node in nodes]
    assert {size: sizes.count(size) for size in ("small", "medium", "large")} == {"small": 7, "medium": 7, "large": 6}


@pytest.mark.parametrize("rule", ["instance:node_cpu:ratio", "instance:node_memory_utilisation:ratio"])
def test_recording_rules_have_data_for_every_node_when_up_returns(cluster: LocalCluster, rule: str) -> None:
    # From the first value on: a wrong one would stay in this average for a quarter of an hour.
    values = query(cluster, f"avg_over_time({rule}[15m])")
    assert set(values) == all_nodes()
    targets = LoadClient(cluster.load_generator_url).nodes()
    resource = "cpu" if "cpu" in rule else "memory"
    assert values == {node: pytest.approx(targets[node][resource], abs=0.03) for node in values}


def test_hot_warm_and_cold_nodes_have_different_loads(cluster: LocalCluster) -> None:
    values = query(cluster, "instance:node_cpu:ratio")
    hot = {node for node, value in values.items() if value > 0.7}
    cold = {node for node, value in values.items() if value < 0.2}
    assert (len(hot), len(cold)) == (4, 9)
    assert query(cluster, "stddev_over_time(instance:node_cpu:ratio[5m])").keys() == all_nodes()


def test_prometheus_needs_the_token_and_its_ca(cluster: LocalCluster) -> None:
    url = f"{cluster.prometheus_url}/api/v1/query?query=up"
    ca = str(cluster.prometheus_ca_file)
    assert requests.get(url, verify=ca, timeout=5).status_code == 401
    assert requests.get(url, verify=ca, headers={"Authorization": "Bearer x"}, timeout=5).status_code == 401
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(url, timeout=5)


def test_a_changed_load_shows_in_prometheus_within_seconds(cluster: LocalCluster) -> None:
    result = command(
        cluster.spec.state_root, "load", "--name", "whole", "sim-001", "--cpu", "95%", "--memory", "0.6", "-o", "json"
    )
    changed = json.loads(result.stdout)["nodes"]["sim-001"]
    assert changed == {
        "cpus": 8,
        "memoryBytes": 32 << 30,
        "cpu": 0.95,
        "memory": 0.6,
    }
    eventually(lambda: query(cluster, "instance:node_cpu:ratio")["sim-001"], lambda value: value > 0.9)
    eventually(
        lambda: query(cluster, "instance:node_memory_utilisation:ratio")["sim-001"],
        lambda value: abs(value - 0.6) < 0.01,
    )


def test_the_read_only_user_can_read_all_but_secrets_and_change_nothing(cluster: LocalCluster, tmp_path: Path) -> None:
    user = yaml.safe_load(cluster.readonly_kubeconfig.read_text())["users"][0]["user"]
    files = []
    for key in ("client-certificate-data", "client-key-data"):
        files.append(tmp_path / key)
        files[-1].write_bytes(base64.b64decode(user[key]))
    reader = session(cluster)
    reader.cert = (str(files[0]), str(files[1]))
    api = cluster.api_server
    readable = ["/api/v1/nodes", "/api/v1/pods", "/api/v1/events", "/apis/coordination.k8s.io/v1/leases"]
    assert [reader.get(api + path).status_code for path in readable] == [200] * len(readable)
    assert reader.get(f"{api}/api/v1/secrets").status_code == 403
    space = {"metadata": {"name": "forbidden"}}
    assert reader.post(f"{api}/api/v1/namespaces", json=space).status_code == 403
    assert reader.delete(f"{api}/api/v1/nodes/sim-000").status_code == 403
    patch = {"Content-Type": "application/merge-patch+json"}
    labelled = reader.patch(f"{api}/api/v1/nodes/sim-000", json={"metadata": {"labels": {"a": "b"}}}, headers=patch)
    assert labelled.status_code == 403


def test_a_pod_for_simulated_nodes_runs_there_and_one_without_toleration_runs_on_the_real_node(
    cluster: LocalCluster,
) -> None:
    api = session(cluster)
    pods = f"{cluster.api_server}/api/v1/namespaces/default/pods"

    def create(name: str, **spec: Any) -> None:
        spec = {"containers": [{"name": "c", "image": "example.com/none", "imagePullPolicy": "Never"}], **spec}
        assert api.post(pods, json={"metadata": {"name": name}, "spec": spec}).status_code == 201

    create(
        "simulated",
        nodeSelector={"type": "kwok"},
        tolerations=[{"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}],
    )
    create("real")
    running = eventually(
        lambda: api.get(f"{pods}/simulated").json(), lambda pod: pod["status"].get("phase") == "Running"
    )
    assert running["spec"]["nodeName"].startswith("sim-")
    placed = eventually(lambda: api.get(f"{pods}/real").json(), lambda pod: "nodeName" in pod["spec"])
    assert placed["spec"]["nodeName"] == "real-0"
    for name in ("simulated", "real"):
        api.delete(f"{pods}/{name}")
    eventually(lambda: api.get(pods).json()["items"], lambda items: items == [])


def test_env_prints_all_that_a_shell_needs(cluster: LocalCluster) -> None:
    lines = command(cluster.spec.state_root, "env", "--name", "whole").stdout
    script = (
        'curl -sS --noproxy "*" --cacert "$SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE" -o /dev/null -w "%{http_code}" '
        '-H "Authorization: Bearer $(cat "$SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE")" '
        '"$SECONDARY_SCHEDULER_PROMETHEUS_URL/api/v1/labels"; test -f "$KUBECONFIG" && test -d "$PULUMI_HOME"'
    )
    result = subprocess.run(["/bin/sh", "-c", lines + script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "200"), result.stderr


def test_every_service_has_a_log(cluster: LocalCluster) -> None:
    result = command(cluster.spec.state_root, "logs", "--name", "whole", "--lines", "1")
    assert result.returncode == 0
    assert any(line.startswith("audit") for line in result.stdout.splitlines())
    unknown = command(cluster.spec.state_root, "logs", "--name", "whole", "nonsense")
    assert unknown.returncode == 2
    assert "its services are: audit, etcd, kube-apiserver" in unknown.stderr


def test_a_second_up_changes_nothing_and_reports_it(cluster: LocalCluster) -> None:
    before = (cluster.state_dir / "cluster.json").read_bytes()
    result = command(cluster.spec.state_root, "up", "--name", "whole", "--nodes", "3")
    assert (result.returncode, result.stdout) == (0, "")
    nodes = "20 simulated and 1 real nodes, whose pods are processes"
    assert f"is already running Kubernetes 1.34 with {nodes}; nothing was changed" in result.stderr
    assert (cluster.state_dir / "cluster.json").read_bytes() == before


def test_no_process_shows_a_credential_in_its_arguments(cluster: LocalCluster) -> None:
    token = cluster.prometheus_token_file.read_text()
    for service in cluster.status().services:
        assert token not in Path(f"/proc/{service.pid}/cmdline").read_text()
    for log in (cluster.state_dir / "logs").iterdir():
        assert token not in log.read_text(errors="replace")


def test_every_process_belongs_to_the_cluster(cluster: LocalCluster) -> None:
    marker = f"{processes.CLUSTER_MARKER}={cluster.state_dir}"
    for service in cluster.status().services:
        assert marker in Path(f"/proc/{service.pid}/environ").read_text().split("\0")
