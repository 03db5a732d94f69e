"""The rendered manifests, applied to a cluster: the scheduler comes up as after `pulumi up`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.config import configuration_hash
from tests.integration.operator.support import Api
from tests.support.applying import apply
from tests.support.cluster import MakeCluster
from tests.support.rendering import Project

pytestmark = [pytest.mark.integration]
NS = "openshift-secondary-scheduler-operator"


@pytest.fixture
def open_api() -> Iterator[Callable[[Path], Api]]:
    """Opens an API whose connection is closed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda kubeconfig: stack.enter_context(contextlib.closing(Api(kubeconfig, NS)))


@pytest.mark.slow
def test_rendered_manifests_become_a_scheduler_with_their_configuration(
    make_cluster: MakeCluster, open_api: Callable[[Path], Api], tmp_path: Path
) -> None:
    project = Project(tmp_path)
    project.stack("plain")
    manifests = project.manifests("plain")
    cluster = make_cluster(nodes=0, kwok=False, prometheus=False, real_nodes=1)
    apply(cluster.kubeconfig, manifests)
    api = open_api(cluster.kubeconfig)
    named = manifests[-1]["spec"]["schedulerConfig"]
    by_name = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}
    config_map = by_name["ConfigMap", named]
    content = config_map["data"]["config.yaml"]
    api.wait_for_hash(configuration_hash(content))
    api.wait_for("Available", "True")
    # Applied again, nothing changes: the server agrees with every value as it is written.
    before = {kind: api.items(kind) for kind in ("configmaps", "roles", "secondaryschedulers")}
    apply(cluster.kubeconfig, manifests)
    for kind, items in before.items():
        generations = {item["metadata"]["name"]: item["metadata"].get("generation") for item in items}
        assert generations == {i["metadata"]["name"]: i["metadata"].get("generation") for i in api.items(kind)}
