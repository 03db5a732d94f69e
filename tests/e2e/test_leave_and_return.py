"""The way to the Go scheduler and back, under load: pods arrive all the time, and nobody's pod is lost.

What is waited for is that every pod has a node in the end. What a switch costs is measured and printed:
benchmarks/NOTES.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler.kube.model import POD_GROUP_LABEL
from tests.support.handovers import Arrivals, Nomination, create, leading_pod, node_of
from tests.support.live_stack import GO_IMAGE, NAME, NAMESPACE, OUR_IMAGE, Live, go_images
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NODES = 10
OUR_OPERATOR = OUR_IMAGE.replace("kube-scheduler", "operator")
PLUGINS = {
    "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
    "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": ["*"]},
}


@pytest.fixture(scope="module")
def live(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    spec = ClusterSpec(name="leaving", nodes=NODES, state_root=cluster_state_root, images=go_images())
    with LocalCluster(spec) as cluster:
        stack = Live(cluster, tmp_path_factory.mktemp("leaving"), "leaving", only_own=True)
        yield stack
        stack.close()


def begin_gang(live: Live, name: str) -> None:
    """Create a PodGroup of three, and two of its pods."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": 3, "scheduleTimeoutSeconds": 60},
    }
    live.custom.create_namespaced_custom_object("scheduling.x-k8s.io", "v1alpha1", "default", "podgroups", group)
    for number in range(2):
        create(live, f"{name}-{number}", {POD_GROUP_LABEL: name})


def image_that_runs(live: Live) -> str:
    deployment: Any = live.apps.read_namespaced_deployment(NAME, NAMESPACE)
    return str(deployment.spec.template.spec.containers[0].image)


@pytest.mark.parametrize(("direction", "image"), [("leave", GO_IMAGE), ("return", OUR_IMAGE)])
def test_every_pod_and_a_gang_that_was_begun_are_placed_across_the_switch(
    live: Live, direction: str, image: str
) -> None:
    if direction == "leave":
        live.up(schedulerImage=OUR_IMAGE, operatorImage=OUR_OPERATOR, plugins=PLUGINS)
    begin_gang(live, f"gang-{direction}")
    create(live, f"too-large-{direction}", {}, cpu="10000")
    nomination = Nomination(live, direction)
    with Arrivals(live, direction) as arrivals:
        eventually(lambda: bool(arrivals.bound), "pods are placed before the switch")
        live.up(schedulerImage=image)
        assert image_that_runs(live) == image
        since = len(arrivals.created)
        eventually(lambda: f"{direction}-{since}" in arrivals.bound, "pods are placed after the switch")
    eventually(arrivals.look, "every pod has a node")
    print(arrivals.cost())
    assert not node_of(live, f"gang-{direction}-0"), "a gang that is not complete is held"
    create(live, f"gang-{direction}-2", {POD_GROUP_LABEL: f"gang-{direction}"})
    eventually(lambda: all(node_of(live, f"gang-{direction}-{number}") for number in range(3)), "the gang is placed")
    assert not node_of(live, f"too-large-{direction}")
    nomination.is_kept_to()
    pods = live.core.list_namespaced_pod(NAMESPACE, label_selector=f"app={NAME}").items
    assert leading_pod(live) in {pod.metadata.name for pod in pods}, "the new scheduler has the Lease"


def resource(live: Live) -> dict[str, Any]:
    group = ("operator.openshift.io", "v1", NAMESPACE, "secondaryschedulers", "cluster")
    return dict(live.custom.get_namespaced_custom_object(*group))


def test_stopped_by_hand_it_stays_stopped_until_it_is_managed_again(live: Live) -> None:
    group = ("operator.openshift.io", "v1", NAMESPACE, "secondaryschedulers", "cluster")
    unmanaged = {"spec": {"managementState": "Unmanaged"}}
    generation = live.custom.patch_namespaced_custom_object(*group, unmanaged)["metadata"]["generation"]
    eventually(
        lambda: resource(live)["status"]["observedGeneration"] == generation, "the operator knows that it is not to act"
    )
    live.apps.patch_namespaced_deployment_scale(NAME, NAMESPACE, {"spec": {"replicas": 0}})
    eventually(
        lambda: not live.core.list_namespaced_pod(NAMESPACE, label_selector=f"app={NAME}").items, "it is stopped"
    )
    create(live, "while-stopped", {})
    eventually(lambda: resource(live)["status"].get("readyReplicas", 0) == 0, "the operator has seen it")
    assert live.apps.read_namespaced_deployment(NAME, NAMESPACE).spec.replicas == 0
    assert not node_of(live, "while-stopped")
    live.custom.patch_namespaced_custom_object(*group, {"spec": {"managementState": "Managed"}})
    eventually(lambda: bool(node_of(live, "while-stopped")), "it works again")
    live.nothing_to_change()


def test_a_preview_names_at_once_every_setting_that_the_go_image_cannot_have(live: Live) -> None:
    refused = {
        "metricProvider": {
            "type": "Prometheus",
            "address": "https://prometheus.example.com",
            "credentials": {"token": {"fromFileInEnv": "SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE"}},
        },
        "plugins": {**PLUGINS, "filter": {"enabled": [{"name": "HighLoadFilter"}]}},
    }
    live.settings.pop("operatorImage")
    output = live.run("preview", fails=True, schedulerImage=GO_IMAGE, **refused)
    assert "operatorImage: missing" in output
    assert "metricProvider.credentials: " in output
    assert 'FilterPlugin "HighLoadFilter" does not exist in scheduler-plugins@0.34' in output
    live.settings.pop("metricProvider")
