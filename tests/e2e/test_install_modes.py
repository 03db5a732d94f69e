"""A preview names what is in the way on a live cluster before the update does. Then a stack goes from one install mode
to another: the old objects go, the new ones come, pods are placed after it.

The tests of this module run in order and share one cluster. Those of the modes share one stack; each begins where the
former one ended.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes import client as kubernetes

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler import __version__
from tests.support.live_stack import NAME, NAMESPACE, Live, places_a_pod
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e]

OPERATOR = "secondary-scheduler-operator"
IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
NOT_ASKED = "the cluster was not asked"
OLD = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.29.8"
ABSENT_IMAGE = f"registry.invalid/secondary-scheduler/kube-scheduler:{__version__}"


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    with LocalCluster(ClusterSpec(name="install-modes", nodes=3, state_root=cluster_state_root)) as cluster:
        yield cluster


# What previews say of the cluster ------------------------------------------------------------------------------------


def direct_stack(cluster: LocalCluster, directory: Path, name: str) -> Iterator[Live]:
    (directory / name).mkdir()
    stack = Live(cluster, directory / name, name)
    stack.settings = {"installMode": "direct"}
    yield stack
    stack.close()


@pytest.fixture
def first(cluster: LocalCluster, tmp_path: Path) -> Iterator[Live]:
    yield from direct_stack(cluster, tmp_path, "first")


@pytest.fixture
def second(cluster: LocalCluster, tmp_path: Path) -> Iterator[Live]:
    yield from direct_stack(cluster, tmp_path, "second")


@pytest.mark.slow
def test_on_an_empty_cluster_nothing_is_in_the_way(first: Live) -> None:
    text = first.run("preview")
    assert NOT_ASKED not in text
    assert "not checked" not in text


def test_an_image_for_another_kubernetes_is_told_by_the_version_that_the_cluster_says(first: Live) -> None:
    plain = {"schedulerImage": OLD, "metricProvider": {}, "plugins": {}, "compatibilityCheck": "fail"}
    text = first.run("preview", fails=True, cluster={"clusterIdentifier": "local"}, **plain)
    incompatibility = (
        "scheduler-plugins@0.29 is built from Kubernetes 1.29, more than one release older than the cluster's"
    )
    assert incompatibility in text
    assert "(the cluster says its version)" in text


def test_a_namespace_that_somebody_made_is_named_before_the_update(first: Live) -> None:
    first.core.create_namespace({"metadata": {"name": NAMESPACE}})
    try:
        text = first.run("preview", fails=True)
        assert f"namespace {NAMESPACE} exists on the cluster (it is not in this stack's state)" in text
        assert "exists on the cluster" not in first.run("preview", checkCluster=False)
        assert NOT_ASKED not in first.run("preview", checkCluster=True, adoptExisting=True)
    finally:
        first.core.delete_namespace(NAMESPACE)
        eventually(lambda: NAMESPACE not in {item.metadata.name for item in first.core.list_namespace().items})


@pytest.mark.slow
def test_a_second_stack_that_shares_the_operator_as_its_preview_says_works(first: Live, second: Live) -> None:
    first.core.create_namespace({"metadata": {"name": "second-ns"}})
    first.up(installMode="manifests", operator={"instances": [{"namespace": "second-ns"}]})
    try:
        text = second.run("preview", fails=True, installMode="manifests", namespace="not-made-yet")
        assert "installMode: none and optionalObjects.priorityClass: false in this one" in text
        second.settings |= {"schedulerName": "second", "optionalObjects": {"priorityClass": False}}
        second.up(installMode="none", namespace="second-ns")
        places_a_pod(first.core, "second", name="in-second-ns")
        second.nothing_to_change()
    finally:
        second.run("destroy", "--yes", "--skip-preview")
        first.run("destroy", "--yes", "--skip-preview")
        first.core.delete_namespace("second-ns")
        eventually(lambda: "V1Namespace/second-ns" not in first.cluster_scoped(), "the namespace goes")


@pytest.mark.slow
def test_a_stack_lives_in_a_namespace_of_its_own_and_stays_there(first: Live) -> None:
    first.up(installMode="manifests", namespace="team-a")
    try:
        first.places_a_pod("in-team-a")
        first.nothing_to_change()
        assert first.output()["scheduler"]["namespace"] == "team-a"
        text = first.run("preview", fails=True, namespace="team-b")
        assert "namespace is team-b, and this stack lives in team-a: an update cannot move it" in text
        # The first of the two steps works with the setting changed already.
        first.run("destroy", "--yes", "--skip-preview")
        first.up(installMode="direct")
        assert first.output()["scheduler"]["namespace"] == "team-b"
    finally:
        first.run("destroy", "--yes", "--skip-preview")
    assert first.cluster_scoped() == first.before


def preview_of(stack: Live, address: str, directory: Path) -> str:
    """The preview of a stack whose kubeconfig names this server."""
    kubeconfig = yaml.safe_load(Path(stack.environment["KUBECONFIG"]).read_text())
    for entry in kubeconfig["clusters"]:
        entry["cluster"]["server"] = address
    (directory / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    stack.environment["KUBECONFIG"] = str(directory / "kubeconfig")
    return stack.run("preview")


def test_without_an_answer_the_preview_says_what_it_did_not_check(first: Live, tmp_path: Path) -> None:
    text = preview_of(first, "https://127.0.0.1:1", tmp_path)
    assert f"{NOT_ASKED} (Connection refused), so its version, another installation and the owner of the" in text


@pytest.mark.slow
def test_a_server_that_says_nothing_is_told_apart_and_the_provider_waits_too(first: Live, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = preview_of(first, f"https://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
    assert f"{NOT_ASKED} (it does not answer within 5 s), so its version," in text
    assert "the Kubernetes provider tries next, and may wait longer" in text


# One stack, from mode to mode -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    stack = Live(cluster, tmp_path_factory.mktemp("stack"), "modes")
    yield stack
    stack.close()


def test_direct_runs_the_scheduler_without_operator_crd_or_resource(live: Live, tmp_path: Path) -> None:
    live.up(installMode="direct")
    assert set(live.deployments()) == {NAME}
    assert live.output()["scheduler"]["readyReplicas"] == 1
    assert live.output()["health"]["conditions"]["Available"] == "True"
    definitions = kubernetes.ApiextensionsV1Api(live.core.api_client).list_custom_resource_definition().items
    assert "secondaryschedulers.operator.openshift.io" not in {definition.metadata.name for definition in definitions}
    live.places_a_pod("with-direct")
    assert live.limited_pods() == {NAME}
    live.scheduler_is_scraped(tmp_path)
    live.nothing_to_change()


@pytest.mark.usefixtures("live")
def test_a_second_stack_is_told_which_one_is_there(second: Live) -> None:
    text = second.run("preview", fails=True)
    elsewhere = second.run("preview", fails=True, namespace="second-ns")
    assert f"namespace {NAMESPACE} exists on the cluster (stack modes made it), and runs secondary-scheduler (" in text
    shared = "ClusterRole secondary-scheduler:base, PriorityClass secondary-scheduler"
    assert f"{shared} exist on the cluster (made by stack modes)" in elsewhere


@pytest.mark.slow
def test_a_new_configuration_replaces_the_map_once_it_runs(live: Live) -> None:
    before = live.config_maps()
    live.up(compatibility="upstream")
    after = live.config_maps()
    assert len(after) == 1
    assert not after & before
    assert all(len(name) <= 63 for name in after)
    (mounted,) = after
    volumes = live.deployments()[NAME].spec.template.spec.volumes
    assert mounted in {volume.config_map.name for volume in volumes if volume.config_map}


@pytest.mark.slow
def test_a_gate_that_fails_leaves_the_former_map_and_the_former_pod(live: Live) -> None:
    before = live.config_maps()
    (pod,) = live.pods()
    for _ in range(2):  # the second finds the replacement of the map half done
        output = live.up(fails=True, compatibility="safe", schedulerImage=ABSENT_IMAGE, readySeconds=10)
        assert "ErrImagePull" in output or "ImagePullBackOff" in output
        assert before < live.config_maps()
        assert pod in live.pods()
    live.places_a_pod("with-the-former-pod")
    live.up(schedulerImage=IMAGE, readySeconds=180)
    assert not before & live.config_maps()
    assert pod not in live.pods()


@pytest.mark.slow
def test_from_direct_to_manifests_in_one_update(live: Live, tmp_path: Path) -> None:
    refused = live.up(fails=True, installMode="manifests")
    assert f"Deployment {NAMESPACE}/{NAME}, the running scheduler" in refused
    assert set(live.deployments()) == {NAME}
    live.up(installMode="manifests", allowRemoval=True)
    assert set(live.deployments()) == {NAME, OPERATOR}
    owners = live.deployments()[NAME].metadata.owner_references
    assert [owner.kind for owner in owners] == ["SecondaryScheduler"]
    live.places_a_pod("with-manifests")
    assert live.limited_pods() == {NAME, OPERATOR}
    live.scheduler_is_scraped(tmp_path)
    live.nothing_to_change()


@pytest.mark.slow
def test_what_the_operator_rejects_ends_the_wait_and_the_former_runs_on(live: Live) -> None:
    (pod,) = live.pods()
    output = live.up(fails=True, schedulerImage=ABSENT_IMAGE)
    assert "SecondaryScheduler is degraded, CanaryFailed: " in output
    assert ABSENT_IMAGE in output
    assert "timed out" not in output
    assert live.pods() == {pod}
    live.places_a_pod("beside-a-rejected-image")
    live.up(schedulerImage=IMAGE)
    live.nothing_to_change()


@pytest.mark.slow
def test_from_manifests_to_direct_in_one_update(live: Live) -> None:
    live.up(installMode="direct", allowRemoval=True)
    assert set(live.deployments()) == {NAME}
    assert not live.deployments()[NAME].metadata.owner_references
    live.places_a_pod("with-direct-again")
    live.nothing_to_change()


def test_destroy_leaves_nothing(live: Live) -> None:
    live.run("destroy", "--yes", "--skip-preview")
    assert live.cluster_scoped() == live.before
