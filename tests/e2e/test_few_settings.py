"""Stack files as short as they can be: one setting installs a scheduler, and a metric source makes it place by load.

With our image, and with the Go one of scheduler-plugins (the seeds' example): it reads Prometheus with a token, which
it takes from its configuration only, or asks a load-watcher of the stack, which has the token in a Secret. The real
binary runs under the image's own name.

The tests of this module run in order and share one cluster; each stack has it for itself until it is destroyed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as kubernetes

from devcluster.cluster import LocalCluster
from devcluster.demo.workload import TAINT
from devcluster.inventory import HOT, simulated_nodes
from devcluster.spec import ClusterSpec
from tests.support.live_stack import GO_IMAGE, NAME, NAMESPACE, OUR_IMAGE, Live, go_images
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NODES = 10
PODS = 20
WATCHER = "secondary-scheduler-load-watcher"
TOKEN = {"token": {"fromFileInEnv": "SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE"}}
SOURCE = {"type": "Prometheus", "address": {"fromEnv": "SECONDARY_SCHEDULER_PROMETHEUS_URL"}}


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    spec = ClusterSpec(name="few-settings", nodes=NODES, state_root=cluster_state_root, images=go_images())
    with LocalCluster(spec) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def first(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    stack = Live(cluster, tmp_path_factory.mktemp("first"), "first", only_own=True)
    yield stack
    stack.close()


@pytest.fixture(scope="module")
def live(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    stack = Live(cluster, tmp_path_factory.mktemp("stack"), "go")
    # Without plugins: the source alone enables TargetLoadPacking.
    stack.settings = {"schedulerImage": GO_IMAGE, "plugins": {}}
    yield stack
    stack.close()


@pytest.fixture(scope="module")
def watching(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A stack of its own: a Go scheduler that reads the source itself serves port 2020, and the pods of the local
    cluster share a network."""
    stack = Live(cluster, tmp_path_factory.mktemp("watching"), "watched")
    stack.settings = {"schedulerImage": GO_IMAGE, "plugins": {}}
    yield stack
    stack.close()


@pytest.fixture(scope="module")
def token(cluster: LocalCluster) -> str:
    return cluster.prometheus_token_file.read_text().strip()


def test_one_setting_previews_and_installs_a_scheduler(first: Live) -> None:
    preview = first.run("preview", schedulerImage=OUR_IMAGE)
    assert 'clusterIdentifier is not set: it is the stack\'s name, "first"' in preview
    assert "not by the nodes' load" in preview
    first.up()
    outputs = first.output()
    assert outputs["scheduler"]["readyReplicas"] == 1
    assert outputs["scheduler"]["schedulerNames"] == [NAME]
    assert outputs["health"]["conditions"]["Available"] == "True"
    operator = first.deployments()["secondary-scheduler-operator"].spec.template.spec.containers[0].image
    assert operator == OUR_IMAGE.replace("kube-scheduler", "operator")
    assert placed(first), "pods are placed"
    first.nothing_to_change()


def test_a_metric_source_is_all_that_placing_by_load_needs(first: Live) -> None:
    credentials = {**TOKEN, "caFile": {"fromFileInEnv": "SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE"}}
    output = first.up(metricProvider={**SOURCE, "credentials": credentials, "window": "1m"})
    assert "not by the nodes' load" not in output
    eventually(lambda: not placed(first) & hot_nodes(), "no pod on a hot node")
    assert first.output()["profile"]["scorePlugins"]["TargetLoadPacking"] == 10


def test_destroy_leaves_not_even_the_crds_whatever_the_stack_is_called(first: Live) -> None:
    first.run("destroy", "--yes", "--skip-preview")
    assert first.cluster_scoped() == first.before


def test_a_token_that_the_image_cannot_read_fails_the_preview_with_the_two_ways_out(live: Live, token: str) -> None:
    output = live.run("preview", fails=True, metricProvider={**SOURCE, "credentials": TOKEN})
    # The engine shows an error where it happens and again at the end.
    line, *_ = [line for line in output.splitlines() if "metricProvider.credentials: " in line]
    assert "scheduler-plugins@0.34 reads a token from its configuration only; choose one of two" in line
    assert "allowTokenInConfigMap: true" in line
    assert "metricProvider.loadWatcher: {image: " in line
    assert token not in output


def test_the_go_scheduler_places_pods_by_the_load_that_it_reads_with_the_token(live: Live, token: str) -> None:
    credentials = {**TOKEN, "allowTokenInConfigMap": True}
    preview = live.run("preview", "--diff", metricProvider={**SOURCE, "credentials": credentials})
    assert f"ConfigMaps in the namespace {NAMESPACE} can read it" in preview
    output = live.up()
    assert token not in preview + output
    (pod,) = live.core.list_namespaced_pod(NAMESPACE, label_selector=f"app={NAME}").items
    assert pod.spec.containers[0].image == GO_IMAGE
    eventually(lambda: not placed(live) & hot_nodes(), "no pod on a hot node")


def test_the_token_is_in_that_config_map_and_in_no_other_text(live: Live, cluster: LocalCluster, token: str) -> None:
    holders = {
        item.metadata.name
        for item in live.core.list_namespaced_config_map(NAMESPACE).items
        if token in json.dumps(item.data or {})
    }
    (own,) = live.config_maps()
    assert own in holders
    assert all(name.startswith(f"{NAME}-") for name in holders), "and the operator's stored copies of it"
    state = (cluster.state_dir / "pulumi" / "backend").rglob("*go*.json*")
    assert token not in "".join(path.read_text(errors="replace") for path in state)
    assert token not in json.dumps(live.output())
    assert token not in live.state()
    texts = [live.core.list_event_for_all_namespaces(), live.core.list_namespaced_secret(NAMESPACE)]
    texts += [live.apps.list_namespaced_deployment(NAMESPACE), live.core.list_namespaced_pod(NAMESPACE)]
    resource = live.custom.get_namespaced_custom_object(
        "operator.openshift.io", "v1", NAMESPACE, "secondaryschedulers", "cluster"
    )
    to_text = kubernetes.ApiClient().sanitize_for_serialization
    assert token not in json.dumps([to_text(each) for each in [*texts, resource]])
    live.nothing_to_change()


def test_a_changed_argument_is_described_without_the_token(live: Live, token: str) -> None:
    plugins = {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 10, "args": {"targetUtilization": 60}}]}}
    output = live.run("preview", "--diff", plugins=plugins)
    assert "TargetLoadPacking targetUtilization 40 -> 60" in output
    assert token not in output


def test_destroy_leaves_nothing(live: Live) -> None:
    live.run("destroy", "--yes", "--skip-preview")
    assert live.cluster_scoped() == live.before


def watched(**source: Any) -> dict[str, Any]:
    """A metric source that a load-watcher of the stack reads."""
    credentials = {**TOKEN, "caFile": {"fromFileInEnv": "SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE"}}
    image = OUR_IMAGE.replace("kube-scheduler", "operator")
    return {**SOURCE, "window": "1m", "credentials": credentials, "loadWatcher": {"image": image}, **source}


def test_a_load_watcher_of_the_stack_reads_the_source_for_the_go_scheduler(watching: Live, token: str) -> None:
    output = watching.up(metricProvider=watched())
    assert token not in output
    eventually(lambda: not placed(watching) & hot_nodes(), "no pod on a hot node")
    (own,) = watching.config_maps()
    content = watching.core.read_namespaced_config_map(own, NAMESPACE).data["config.yaml"]
    assert f"watcherAddress: http://{WATCHER}:2020" in content
    watching.nothing_to_change()


def test_the_token_is_in_no_config_map_and_only_the_load_watcher_mounts_it(watching: Live, token: str) -> None:
    def in_config_maps() -> bool:
        return any(
            token in json.dumps(item.data or {}) for item in watching.core.list_namespaced_config_map(NAMESPACE).items
        )

    eventually(lambda: not in_config_maps(), "no ConfigMap with the token")
    secret = f"{WATCHER}-metrics"
    pods = watching.core.list_namespaced_pod(NAMESPACE).items
    mounting = {
        pod.metadata.labels["app"]
        for pod in pods
        if any(volume.secret is not None and volume.secret.secret_name == secret for volume in pod.spec.volumes)
    }
    assert mounting == {WATCHER}
    assert token not in watching.state() + json.dumps(watching.output())


def test_a_source_that_gives_no_load_fails_the_update_and_the_old_load_watcher_goes_on(watching: Live) -> None:
    before = watching.pods()
    output = watching.up(fails=True, metricProvider=watched(address="https://127.0.0.1:9"), readySeconds=20)
    assert WATCHER in output
    assert watching.pods() == before, "the scheduler was not touched"
    eventually(lambda: not placed(watching) & hot_nodes(), "no pod on a hot node")
    watching.up(metricProvider=watched(), readySeconds=180)
    watching.nothing_to_change()


def test_destroy_takes_the_load_watcher_along(watching: Live) -> None:
    watching.run("destroy", "--yes", "--skip-preview")
    assert watching.cluster_scoped() == watching.before


def hot_nodes() -> set[str]:
    return {node.name for node in simulated_nodes(NODES) if node.profile == HOT}


def placed(stack: Live) -> set[str]:
    """Place a batch of pods, take it away again, and return the nodes that it was placed on."""
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "50m"}}}
    spec = {
        "schedulerName": NAME, "nodeSelector": {"type": "kwok"}, "tolerations": [TAINT], "containers": [container],
    }  # fmt: skip
    labels = {"batch": "by-load"}
    for number in range(PODS):
        metadata = {"name": f"by-load-{number}", "labels": labels}
        stack.core.create_namespaced_pod("default", {"metadata": metadata, "spec": spec})
    selected = {"label_selector": "batch=by-load"}
    nodes: Counter[str] = Counter()

    def all_bound() -> bool:
        pods = stack.core.list_namespaced_pod("default", **selected).items
        nodes.clear()
        nodes.update(pod.spec.node_name for pod in pods if pod.spec.node_name)
        return nodes.total() == PODS

    eventually(all_bound, "every pod of the batch is bound")
    stack.core.delete_collection_namespaced_pod("default", grace_period_seconds=0, **selected)
    eventually(lambda: not stack.core.list_namespaced_pod("default", **selected).items, "the batch is gone")
    return set(nodes)
