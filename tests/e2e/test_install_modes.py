"""A live stack goes from one install mode to another: the old objects go, the new ones come, pods are placed after it.

The tests of this module run in order and share one cluster and one stack; each begins where the former one ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client as kubernetes

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler import __version__
from tests.support.live_stack import NAME, NAMESPACE, Live

pytestmark = [pytest.mark.e2e]

OPERATOR = "secondary-scheduler-operator"
IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
ABSENT_IMAGE = f"registry.invalid/secondary-scheduler/kube-scheduler:{__version__}"


@pytest.fixture(scope="module")
def live(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with LocalCluster(ClusterSpec(name="install-modes", nodes=3, state_root=cluster_state_root)) as cluster:
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
