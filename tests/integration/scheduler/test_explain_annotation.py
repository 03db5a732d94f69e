"""The annotation that points to `explain`, on a real API server, with the rights that the installation gives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import LocalCluster
from scheduler.engine.failures import EXPLAIN_ANNOTATION
from tests.integration.operator.support import Api
from tests.integration.scheduler.shipped_rights import kubeconfig_with_shipped_rights
from tests.support.daemon import Cluster, configuration, daemon
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration]

NAME = "annotated"


@pytest.fixture(scope="module")
def cluster(control_plane: LocalCluster) -> Iterator[Cluster]:
    cluster = Cluster(control_plane.kubeconfig, NAME)
    yield cluster
    cluster.remove()


def pending(cluster: Cluster, name: str) -> Any:
    """Create a pod that fits nowhere; returns it once the scheduler says so."""
    spec = {"schedulerName": NAME, "nodeSelector": {"no": "such-node"}, "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "annotations": {"mine": "kept"}}
    cluster.core.create_namespaced_pod(NAME, {"metadata": metadata, "spec": spec})

    def read() -> Any:
        return cluster.core.read_namespaced_pod(name, NAME)

    eventually(lambda: any(each.reason == "Unschedulable" for each in read().status.conditions or ()), "it is rejected")
    return read()


@pytest.mark.parametrize("wanted", [True, False])
def test_a_pod_that_fits_nowhere_has_the_command_if_the_profile_says_so(
    control_plane: LocalCluster, cluster: Cluster, tmp_path: Path, wanted: bool
) -> None:
    options = {"name": "SecondarySchedulerOptions", "args": {"explainAnnotation": True}} if wanted else None
    content = configuration(control_plane.kubeconfig, NAME, *([options] if options else []))
    administrator = Path(control_plane.kubeconfig)
    with contextlib.closing(Api(administrator, f"{NAME}-{wanted}".lower())) as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": api.namespace}})
        kubeconfig = kubeconfig_with_shipped_rights(api, administrator, content, tmp_path)
    content["clientConnection"] = {"kubeconfig": str(kubeconfig)}
    name = f"nowhere-{wanted}".lower()
    with daemon(tmp_path, content):
        annotations = dict(pending(cluster, name).metadata.annotations)
    command = f"kubectl secondary-scheduler explain pod {name} -n {NAME}"
    assert annotations == {"mine": "kept", **({EXPLAIN_ANNOTATION: command} if wanted else {})}
    cluster.core.delete_namespaced_pod(name, NAME, grace_period_seconds=0)
