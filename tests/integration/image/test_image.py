"""The image in real containers, as the operator runs them: from manifests to a placed pod."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes as k8s
import pytest

from devcluster.cluster import LocalCluster
from devcluster.node_agent.podman.host import AGENT_LABEL
from scheduler import __version__
from scheduler.config import configuration_hash
from scheduler.kube.client import ClientConfig
from scheduler.kube.client.sync import SyncConnection
from tests.integration.image.podman import podman, run_once
from tests.integration.operator.support import Api
from tests.support.applying import apply
from tests.support.rendering import Project
from tests.support.waiting import PATIENCE_SECONDS, eventually

# Building takes minutes where nothing is cached yet.
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1200)]

CLUSTER, NODE = "image-test", "real-0"
NS = "openshift-secondary-scheduler-operator"
NOT_COMPILED = """
import importlib.util, pathlib
root = pathlib.Path("/opt/secondary-scheduler")
files = list(root.rglob("*.py"))
assert len(files) > 500, len(files)
for file in files:
    compiled = pathlib.Path(importlib.util.cache_from_source(str(file)))
    # Flags 1: checked by hash, and not checked at all: neither times nor the source are looked at.
    if not compiled.exists() or compiled.read_bytes()[4:8] != b"\\1\\0\\0\\0":
        print(file)
"""
WORKLOAD = {
    "schedulerName": "secondary-scheduler",
    "containers": [{"name": "c", "image": "registry.example.com/pause:1", "imagePullPolicy": "Never"}],
    "nodeSelector": {"kubernetes.io/hostname": NODE},
}


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("kube-scheduler", "/bin/kube-scheduler"),
        ("operator", "/bin/secondary-scheduler-operator"),
        ("operator", "/bin/load-watcher"),
        ("operator", "/bin/rebalancer"),
        ("operator", "/bin/secondary-scheduler-page"),
    ],
)
@pytest.mark.parametrize("user", ["65532:65532", "1000650000:0"])
def test_entry_points_run_as_any_user_without_privileges(
    images: dict[str, str], name: str, command: str, user: str
) -> None:
    done = run_once(images[name], command, "--version", options=("--user", user))
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout


def python_says(image: str, program: str) -> str:
    """What a program prints that runs in the image's own Python."""
    python = podman("image", "inspect", "--format", '{{index .Labels "io.secondary-scheduler.python"}}', image)
    done = run_once(image, python.strip(), "-c", program)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_user_is_a_number_other_than_root_and_nothing_can_be_written(images: dict[str, str]) -> None:
    assert podman("image", "inspect", "--format", "{{.User}}", images["operator"]).strip() == "65532:65532"
    places = ["/", "/bin", "/opt/secondary-scheduler"]
    program = f"import os; print(os.getuid(), [d for d in {places} if os.access(d, os.W_OK)])"
    assert python_says(images["operator"], program) == "65532 []\n"


def test_everything_is_compiled_and_only_the_wheel_and_the_lock_are_in_it(images: dict[str, str]) -> None:
    assert python_says(images["operator"], NOT_COMPILED) == ""
    listing = "import os; print(*sorted(os.listdir('/opt/secondary-scheduler/product')))"
    product = python_says(images["operator"], listing).split()
    assert product == ["scheduler", "secondary_scheduler", f"secondary_scheduler-{__version__}.dist-info"]
    names = "from importlib.metadata import distributions; print(*{d.name for d in distributions(path=[%r])})"
    installed = python_says(images["operator"], names % "/opt/secondary-scheduler/dependencies").split()
    lock = (Path(__file__).parents[3] / "image/requirements.txt").read_text().splitlines()
    locked = {line.partition("==")[0] for line in lock if "==" in line}
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in installed} == locked


@pytest.fixture
def local(images: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """`cluster up --containers podman`, with the manifests of a stack."""
    monkeypatch.setenv("SECONDARY_SCHEDULER_HOME", str(tmp_path / "home"))
    cluster_command("up", "--nodes", "2", "--containers", "podman")
    cluster = LocalCluster.attach(CLUSTER)
    try:
        project = Project(tmp_path)
        project.stack("image", schedulerImage=images["kube-scheduler"], operatorImage=images["operator"])
        apply(cluster.kubeconfig, project.manifests("image"))
        yield cluster
    finally:
        cluster_command("down")


def cluster_command(verb: str, *options: str) -> None:
    command = [sys.executable, "-m", "secondary_scheduler.cli", "cluster", verb, "--name", CLUSTER, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def containers(cluster: LocalCluster) -> list[dict[str, Any]]:
    """What `podman inspect` says of the containers of a cluster."""
    ids = podman("ps", "--all", "--quiet", f"--filter=label={AGENT_LABEL}={cluster.layout.data(NODE)}").split()
    described: list[dict[str, Any]] = json.loads(podman("inspect", *ids)) if ids else []
    return described


def test_operator_and_scheduler_run_in_containers_and_place_a_pod(local: LocalCluster) -> None:
    with (
        contextlib.closing(Api(local.kubeconfig, NS)) as api,
        contextlib.closing(Api(local.kubeconfig, "default")) as others,
    ):
        api.wait_for("Available", "True")
        configuration = api.get("secondaryschedulers", "cluster")["spec"]["schedulerConfig"]
        content = api.get("configmaps", configuration)["data"]["config.yaml"]
        api.wait_for_hash(configuration_hash(content))
        _place_a_pod(others)
        _look_at_the_scheduler(local, api)
        _delete_the_schedulers_pod(local, api)
    cluster_command("down")
    assert containers(local) == []


def _place_a_pod(others: Api) -> None:
    others.create("pods", "workload", apiVersion="v1", kind="Pod", spec=WORKLOAD)
    assert eventually(lambda: others.get("pods", "workload")["spec"].get("nodeName"), "placed") == NODE

    def events() -> list[str]:
        return [event["reason"] for event in others.items("events") if event["involvedObject"]["name"] == "workload"]

    eventually(lambda: {"Scheduled", "ErrImageNeverPull"} <= set(events()), "scheduler and node tell of it")

    def reasons() -> list[str]:
        statuses = others.get("pods", "workload")["status"].get("containerStatuses", [])
        return [status["state"].get("waiting", {}).get("reason") for status in statuses]

    eventually(lambda: reasons() == ["ErrImageNeverPull"], "the status says why it waits")


def _scheduler_pod(api: Api) -> dict[str, Any]:
    """The scheduler's pod that is ready and stays."""

    def ready() -> dict[str, Any] | None:
        for pod in api.items("pods"):
            conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
            leaves = pod["metadata"].get("deletionTimestamp")
            operator = pod["metadata"]["name"].startswith("secondary-scheduler-operator-")
            if not operator and not leaves and conditions.get("Ready") == "True":
                return dict(pod)
        return None

    pod = eventually(ready, "the scheduler's pod is ready")
    assert pod is not None
    return pod


def _look_at_the_scheduler(local: LocalCluster, api: Api) -> None:
    pod = _scheduler_pod(api)
    (status,) = pod["status"]["containerStatuses"]
    (described,) = (each for each in containers(local) if status["containerID"] == f"podman://{each['Id']}")
    assert status["imageID"] == f"sha256:{described['Image']}"
    assert described["Config"]["Labels"]["io.kubernetes.pod.name"] == pod["metadata"]["name"]
    assert described["Config"]["User"] == "65532"
    assert described["HostConfig"]["ReadonlyRootfs"]
    assert not described["EffectiveCaps"]
    assert described["State"]["Running"]
    assert "token" not in json.dumps(described["Config"]["Env"]).lower()
    kubeconfig = ClientConfig.load(local.kubeconfig)
    with contextlib.closing(SyncConnection(kubeconfig, timeout=10)) as connection:
        logged = connection.request("GET", api.path("pods", pod["metadata"]["name"]) + "/log").decode()
    # As the program wrote it: without the runtime's own times.
    assert logged.startswith("timestamp="), logged
    assert "event=" in logged


def _delete_and_follow(kubeconfig: Path, pod: dict[str, Any]) -> int:
    """The exit code of the only container of a pod that is deleted."""
    name, version = pod["metadata"]["name"], pod["metadata"]["resourceVersion"]
    with k8s.config.new_client_from_config(str(kubeconfig)) as client:
        core = k8s.client.CoreV1Api(client)
        core.delete_namespaced_pod(name, NS)
        for event in k8s.watch.Watch().stream(
            core.list_namespaced_pod,
            NS,
            resource_version=version,
            field_selector=f"metadata.name={name}",
            timeout_seconds=int(PATIENCE_SECONDS),
        ):
            if event["type"] == "DELETED":
                (status,) = event["object"].status.container_statuses
                return int(status.state.terminated.exit_code)
    raise AssertionError(f"pod {name} is still there")


def _delete_the_schedulers_pod(local: LocalCluster, api: Api) -> None:
    """A deleted pod ends by itself, and its Deployment's next one comes up in another container."""
    before = _scheduler_pod(api)
    assert _delete_and_follow(local.kubeconfig, before) == 0
    after = _scheduler_pod(api)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    names = {each["Config"]["Labels"]["io.kubernetes.pod.uid"] for each in containers(local)}
    assert after["metadata"]["uid"] in names
    assert before["metadata"]["uid"] not in names
