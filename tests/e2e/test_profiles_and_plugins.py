"""What a stack says of the scheduler, seen in where pods go: several profiles, and a plugin of an image of one's own.

The tests of this module run in order and share one cluster and one stack.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import LocalCluster
from devcluster.demo.workload import TAINT
from devcluster.inventory import simulated_nodes
from devcluster.spec import ClusterSpec
from tests.support.live_stack import CHECKOUT, NAME, NAMESPACE, Live
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

EXAMPLE = CHECKOUT / "examples" / "scheduler-timestamp"
REPOSITORY = "registry.example.com/ours/scheduler-with-timestamp"
NODES = 6


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    packages = tmp_path_factory.mktemp("packages")
    installed(packages)
    image = {
        "executables": {"/bin/kube-scheduler": [sys.executable, "-m", "scheduler"]},
        "appendArgs": {"/bin/kube-scheduler": ["--bind-address=$(POD_IP)"]},
        "env": {"PYTHONPATH": f"{CHECKOUT}:{packages}:{EXAMPLE}"},
        "hostPaths": [str(packages)],
        "user": 65532,
    }
    spec = ClusterSpec(name="profiles", nodes=NODES, images={REPOSITORY: image}, state_root=cluster_state_root)
    with LocalCluster(spec) as cluster:
        yield cluster


def installed(packages: Path) -> None:
    """What pip would leave behind in an image: the metadata by which the plugin is found."""
    metadata = packages / "scheduler_timestamp-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: scheduler-timestamp\nVersion: 0.1.0\n")
    entry = "[secondary_scheduler.plugins]\nSchedulerTimestamp = scheduler_timestamp:DESCRIPTOR\n"
    (metadata / "entry_points.txt").write_text(entry)


@pytest.fixture(scope="module")
def live(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    stack = Live(cluster, tmp_path_factory.mktemp("stack"), "profiles")
    stack.settings = {"installMode": "direct", "metricProvider": {}, "plugins": {}, "compatibilityCheck": "off"}
    yield stack
    stack.close()


def place(live: Live, name: str, scheduler: str, cpu: str, **selector: str) -> Any:
    """A pod that has got its node."""
    spec = {
        "schedulerName": scheduler,
        "nodeSelector": {"type": "kwok", **selector},
        "tolerations": [TAINT],
        "containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}],
    }
    live.core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})
    eventually(lambda: live.core.read_namespaced_pod(name, "default").spec.node_name is not None)
    return live.core.read_namespaced_pod(name, "default")


def profile(name: str, strategy: str) -> dict[str, Any]:
    """Only the shares of CPU that are requested count."""
    args = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    score = {"enabled": [{"name": "NodeResourcesFit", "weight": 100, "args": args}], "disabled": ["*"]}
    return {"schedulerName": name, "plugins": {"score": score}}


def test_pods_of_two_profiles_are_each_placed_by_theirs(live: Live) -> None:
    live.up(schedulerName="", profiles=[profile("packing", "MostAllocated"), profile("spreading", "LeastAllocated")])
    assert [profile["schedulerName"] for profile in live.output()["profiles"]] == ["packing", "spreading"]
    assert "profile" not in live.output()
    size = simulated_nodes(NODES)[0].size
    fullest = f"{size.cpus * 700}m"
    placed = place(live, "first", "spreading", fullest, **{"kubernetes.io/hostname": simulated_nodes(NODES)[0].name})
    packed = [place(live, f"packed-{number}", "packing", "100m").spec.node_name for number in range(3)]
    spread = [place(live, f"spread-{number}", "spreading", "100m").spec.node_name for number in range(NODES - 1)]
    assert set(packed) == {placed.spec.node_name}
    assert placed.spec.node_name not in spread

    def reporters() -> dict[str, str]:
        events = live.core.list_namespaced_event("default", field_selector="reason=Scheduled").items
        return {event.involved_object.name: event.reporting_component for event in events}

    eventually(lambda: len(reporters()) == 1 + len(packed) + len(spread))
    by = reporters()
    assert {by[name] for name in by if name.startswith("packed-")} == {"packing"}
    assert {by[name] for name in by if name.startswith("spread-")} == {"spreading"}
    live.nothing_to_change()


def test_a_plugin_of_an_image_of_ones_own_runs_with_the_rights_that_it_is_given(live: Live) -> None:
    plugin = {
        "name": "SchedulerTimestamp",
        "points": ["preScore", "score", "reserve"],
        "args": {"annotation": "example.com/scored-at"},
        "rbac": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}],
    }
    enabled = {"multiPoint": {"enabled": [{"name": "SchedulerTimestamp"}]}}
    live.up(profiles=[], schedulerName=NAME, schedulerImage=f"{REPOSITORY}:1.0", extraPlugins=[plugin], plugins=enabled)
    assert "SchedulerTimestamp" in live.output()["profile"]["scorePlugins"]
    pod = place(live, "stamped", NAME, "100m")
    eventually(lambda: "example.com/scored-at" in (annotations(live, pod.metadata.name)))
    assert annotations(live, pod.metadata.name)["example.com/scored-at"].isdecimal()
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    bound = {
        binding.role_ref.name
        for binding in live.rbac.list_cluster_role_binding().items
        if any(account.items() <= subject.to_dict().items() for subject in binding.subjects or [])
    }
    assert "secondary-scheduler:plugin:schedulertimestamp" in bound
    live.nothing_to_change()


def annotations(live: Live, pod: str) -> dict[str, str]:
    content: dict[str, str] = live.core.read_namespaced_pod(pod, "default").metadata.annotations or {}
    return content


def test_destroy_leaves_nothing(live: Live) -> None:
    live.run("destroy", "--yes", "--skip-preview")
    assert live.cluster_scoped() == live.before
