"""A preview names what is in the way on a live cluster before the update does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.support.live_stack import NAMESPACE, Live, places_a_pod
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e]

NOT_ASKED = "the cluster was not asked"
OLD = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.29.8"


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    with LocalCluster(ClusterSpec(name="cluster-check", nodes=1, state_root=cluster_state_root)) as cluster:
        yield cluster


@pytest.fixture
def stacks(cluster: LocalCluster, tmp_path: Path) -> Iterator[tuple[Live, Live]]:
    lives = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        stack = Live(cluster, tmp_path / name, name)
        stack.settings = {"installMode": "direct"}
        lives.append(stack)
    yield lives[0], lives[1]
    for stack in lives:
        stack.close()


@pytest.fixture
def first(stacks: tuple[Live, Live]) -> Live:
    return stacks[0]


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


def test_a_second_stack_is_told_which_one_is_there(stacks: tuple[Live, Live]) -> None:
    first, second = stacks
    first.up()
    try:
        first.nothing_to_change()
        text = second.run("preview", fails=True)
        elsewhere = second.run("preview", fails=True, namespace="second-ns")
    finally:
        first.run("destroy", "--yes", "--skip-preview")
    assert f"namespace {NAMESPACE} exists on the cluster (stack first made it), and runs secondary-scheduler (" in text
    shared = "ClusterRole secondary-scheduler:base, PriorityClass secondary-scheduler"
    assert f"{shared} exist on the cluster (made by stack first)" in elsewhere


@pytest.mark.slow
def test_a_second_stack_that_shares_the_operator_as_its_preview_says_works(stacks: tuple[Live, Live]) -> None:
    first, second = stacks
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


def test_a_server_that_says_nothing_is_told_apart_and_the_provider_waits_too(first: Live, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = preview_of(first, f"https://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
    assert f"{NOT_ASKED} (it does not answer within 5 s), so its version," in text
    assert "the Kubernetes provider tries next, and may wait longer" in text
