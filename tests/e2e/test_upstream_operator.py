"""A stack beside upstream's operator, for which a fake of exactly its event rules stands in: an update ends when the
roll-out of the Deployment that this operator makes is complete, and not before.

The tests of this module run in order and share one cluster and one stack; each begins where the former one ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from components.crd import SECONDARY_SCHEDULERS, load_manifest
from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler import __version__
from tests.support.live_stack import NAME, NAMESPACE, Live
from tests.support.upstream_operator import GROUP, PLURAL, VERSION, FakeUpstreamOperator
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
ABSENT_IMAGE = f"registry.invalid/secondary-scheduler/kube-scheduler:{__version__}"
LEFT_BY_UPSTREAM = {f"V1ClusterRoleBinding/{NAME}-system-{role}" for role in ("kube-scheduler", "volume-scheduler")}
"""Their owner has a namespace and they have none: neither upstream's operator nor the garbage collector takes them."""


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    spec = ClusterSpec(name="upstream", nodes=2, state_root=cluster_state_root)
    with LocalCluster(spec) as cluster:
        api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        kubernetes.CoreV1Api(api).create_namespace({"metadata": {"name": NAMESPACE}})
        definitions = kubernetes.ApiextensionsV1Api(api)
        definitions.create_custom_resource_definition(load_manifest())

        def served() -> bool:
            conditions = definitions.read_custom_resource_definition(SECONDARY_SCHEDULERS).status.conditions or []
            return any(condition.type == "Established" and condition.status == "True" for condition in conditions)

        eventually(served)
        yield cluster


@pytest.fixture(scope="module")
def operator(cluster: LocalCluster) -> Iterator[FakeUpstreamOperator]:
    with FakeUpstreamOperator(cluster.kubeconfig) as operator:
        yield operator


@pytest.fixture(scope="module")
def live(
    cluster: LocalCluster, operator: FakeUpstreamOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Live]:
    stack = Live(cluster, tmp_path_factory.mktemp("stack"), "upstream")
    stack.settings = {
        "installMode": "none", "operator": {"flavour": "upstream"}, "metricProvider": {}, "plugins": {},
        "compatibilityCheck": "off",
    }  # fmt: skip
    yield stack
    stack.close()


def mounted(live: Live) -> set[str]:
    volumes = live.deployments()[NAME].spec.template.spec.volumes
    return {volume.config_map.name for volume in volumes if volume.config_map}


def test_an_update_ends_when_the_operators_deployment_runs(live: Live) -> None:
    assert "secondary-scheduler" not in live.deployments()
    live.run("preview")
    live.up()
    assert live.deployments()[NAME].status.ready_replicas == 1
    assert mounted(live) == live.config_maps()
    assert live.output()["scheduler"]["readyReplicas"] == 1
    live.places_a_pod("with-upstream")
    live.nothing_to_change()


def test_a_deployment_of_the_former_configuration_does_not_pass(live: Live, operator: FakeUpstreamOperator) -> None:
    before, (pod,) = live.config_maps(), live.pods()
    operator.pause()
    output = live.up(fails=True, compatibility="upstream", readySeconds=10)
    assert "volumes" in output
    assert "there is no such field yet" in output
    assert before < live.config_maps(), "what runs still mounts it"
    assert live.pods() == {pod}
    operator.resume()
    live.up(readySeconds=180)
    assert not before & live.config_maps()
    assert mounted(live) == live.config_maps()
    assert pod not in live.pods()
    live.nothing_to_change()


def test_a_deployment_that_does_not_come_up_fails_the_update_in_time_with_the_reason(live: Live) -> None:
    before, (pod,) = live.config_maps(), live.pods()
    started = time.monotonic()
    output = live.up(fails=True, schedulerImage=ABSENT_IMAGE, compatibility="safe", readySeconds=15)
    assert time.monotonic() - started < 60
    assert f"Deployment {NAMESPACE}/{NAME}" in output
    assert "timed out after 15 s" in output
    assert "ErrImagePull" in output or "ImagePullBackOff" in output
    assert before < live.config_maps()
    assert pod in live.pods(), "the former one goes on"
    live.places_a_pod("with-the-former-pod")
    live.up(schedulerImage=IMAGE, readySeconds=180)
    assert not before & live.config_maps()
    live.nothing_to_change()


def test_a_change_of_the_image_alone_is_waited_for_as_well(live: Live, operator: FakeUpstreamOperator) -> None:
    operator.pause()
    retagged = IMAGE.replace(__version__, "0.1.1")
    assert retagged in live.up(fails=True, schedulerImage=retagged, readySeconds=10)
    operator.resume()
    live.up(readySeconds=180)
    (container,) = live.deployments()[NAME].spec.template.spec.containers
    assert container.image == retagged


def test_a_deployment_that_somebody_deleted_is_the_operators_to_make_again(live: Live) -> None:
    live.apps.delete_namespaced_deployment(NAME, NAMESPACE)
    eventually(lambda: not live.deployments())
    output = live.run("up", "--refresh", "--yes", "--skip-preview", fails=True)
    assert f"Deployment {NAMESPACE}/{NAME} failed" in output
    assert "spec.selector: Required value" in output
    touched = {"metadata": {"annotations": {"touched": "now"}}}
    live.custom.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "cluster", touched)
    eventually(lambda: bool(live.deployments()))
    live.up()
    live.nothing_to_change()


def test_destroy_leaves_what_upstreams_operator_leaves_and_nothing_else(live: Live) -> None:
    live.run("destroy", "--yes", "--skip-preview")
    eventually(lambda: not live.deployments() and not live.pods())
    assert not live.config_maps()
    assert live.cluster_scoped() - live.before <= LEFT_BY_UPSTREAM
