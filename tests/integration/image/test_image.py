"""The image in real containers, as the operator runs them: from manifests to a placed pod."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import __version__
from scheduler.config import configuration_hash
from tests.integration.image.podman_node import NAME, PodmanNode, podman, run_once
from tests.integration.operator.support import Api
from tests.support.applying import apply
from tests.support.cluster import BARE, MakeCluster
from tests.support.rendering import Project
from tests.support.waiting import eventually

# Building takes minutes where nothing is cached yet.
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1200)]

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
    "containers": [{"name": "c", "image": "registry.example.com/pause:1", "resources": {"requests": {"cpu": "1"}}}],
    "tolerations": [{"operator": "Exists"}],
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
def node(images: dict[str, str], make_cluster: MakeCluster, tmp_path: Path) -> Iterator[PodmanNode]:
    """The manifests of a stack, applied, and a node that runs containers."""
    cluster = make_cluster(**BARE)
    project = Project(tmp_path)
    project.stack("image", schedulerImage=images["kube-scheduler"], operatorImage=images["operator"])
    apply(cluster.kubeconfig, project.manifests("image"))
    node = PodmanNode(cluster.kubeconfig, NS, tmp_path / "volumes")
    node.start()
    yield node
    node.stop()


def test_operator_and_scheduler_run_in_containers_and_place_a_pod(node: PodmanNode) -> None:
    with (
        contextlib.closing(Api(node.kubeconfig, NS)) as api,
        contextlib.closing(Api(node.kubeconfig, "default")) as others,
    ):
        _place_a_pod(node, api, others)


def _place_a_pod(node: PodmanNode, api: Api, others: Api) -> None:
    try:
        api.wait_for("Available", "True")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{node.logs()}") from None
    configuration = api.get("secondaryschedulers", "cluster")["spec"]["schedulerConfig"]
    content = api.get("configmaps", configuration)["data"]["config.yaml"]
    api.wait_for_hash(configuration_hash(content))

    eventually(lambda: others.get("serviceaccounts", "default"), "the namespace takes pods")
    others.create("pods", "workload", apiVersion="v1", kind="Pod", spec=WORKLOAD)
    assert eventually(lambda: others.get("pods", "workload")["spec"].get("nodeName"), "placed") == NAME

    def events() -> list[str]:
        return [event["reason"] for event in others.items("events") if event["involvedObject"]["name"] == "workload"]

    eventually(lambda: "Scheduled" in events(), "the scheduler tells of it")
    (scheduler,) = (pod for pod in node.containers if not pod.startswith("secondary-scheduler-operator-"))
    description = node.inspect(scheduler)
    assert description["Config"]["User"] == "65532"
    assert description["HostConfig"]["ReadonlyRootfs"]
    assert not description["EffectiveCaps"]
    assert description["State"]["Running"]
    assert set(node.stop().values()) == {0}, "both end cleanly when they are told to"
