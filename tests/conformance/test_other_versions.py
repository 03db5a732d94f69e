"""A sample for each minor of Kubernetes: our daemon places pods on its API server, and random cases are asked of its
kube-scheduler and of ours behaving as it, or as 1.34 beside an older one but for the differences of `older`.

Nothing is built here: `python -m devcluster.toolchain 1.36` does. Where only the kube-scheduler of a minor has been
built, it runs on the default's API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import releases
from scheduler.catalog import minor_of, nearest_kubernetes
from tests.conformance import profiles
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.features import available
from tests.conformance.generator import choose, generate
from tests.conformance.older import OLDER_VERSIONS
from tests.conformance.oracle import oracle_of
from tests.conformance.ours import Ours
from tests.conformance.runner import Runner
from tests.support.daemon import configuration, daemon
from tests.support.minors import built_or_skip
from tests.support.waiting import eventually

SEED, CASES, SECONDS = 40_000, 100, 90.0
OURS, NAMESPACE = "ours", "default"

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module", params=[minor for minor in releases.RELEASES if minor != releases.DEFAULT])
def minor(request: pytest.FixtureRequest) -> str:
    """A minor whose kube-scheduler has been built; an older one than the default's, and one that runs on another's API
    server, with that."""
    minor = str(request.param)
    with_server = minor_of(minor) in OLDER_VERSIONS or not releases.RELEASES[minor].serves
    built_or_skip(minor, "kube-scheduler", *(["kube-apiserver"] if with_server else []))
    return minor


@pytest.fixture(scope="module")
def plane(minor: str) -> Iterator[ControlPlane]:
    """etcd, API server and kube-scheduler of the minor."""
    with control_plane_running(minor) as running:
        yield running


def test_our_daemon_starts_and_places_pods_as_the_cluster_s_version(plane: ControlPlane, tmp_path: Path) -> None:
    core = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(plane.layout.kubeconfig)))
    resources = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    core.create_node({"metadata": {"name": "n"}, "status": {"allocatable": resources, "capacity": resources}})
    spec = {"schedulerName": OURS, "containers": [{"name": "c", "image": "pause"}]}

    def node_of(name: str) -> str:
        pod: kubernetes.V1Pod = core.read_namespaced_pod(name, NAMESPACE)
        return str(pod.spec.node_name or "")

    try:
        with daemon(tmp_path, configuration(plane.layout.kubeconfig, OURS)) as running:
            for name in ("first", "second"):
                core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": name}, "spec": spec})
                assert eventually(partial(node_of, name), f"{name} has a node") == "n"
            (behavior,) = running.records("behaves as kube-scheduler")
            assert (behavior["because_of"], behavior["version"]) == ("cluster", _nearest_to_server(plane))
            assert running.get("/readyz").status_code == 200
    finally:
        core.delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0)
        core.delete_node("n")


def _nearest_to_server(plane: ControlPlane) -> str:
    api = kubernetes_config.new_client_from_config(str(plane.layout.kubeconfig))
    version: kubernetes.VersionInfo = kubernetes.VersionApi(api).get_code()
    return nearest_kubernetes(minor_of(f"{version.major}.{version.minor}") or 0).name


async def test_random_cases_agree_with_the_kube_scheduler_of_the_version(plane: ControlPlane, minor: str) -> None:
    older = OLDER_VERSIONS.get(minor_of(minor) or 0)
    unasked = older.unasked if older else {}
    features = [name for name in available(profiles.implemented(), plane.served) if name not in unasked]
    names = [variant.name for variant in profiles.variants()]
    chosen = [(seed, *choose(seed, features, names)) for seed in range(SEED, SEED + CASES)]
    async with oracle_of(plane) as oracle:
        summary = await Runner(oracle, Ours(kubernetes=plane.kubernetes), older).run(
            (generate(seed, picked, profile) for seed, picked, profile in chosen), seconds=SECONDS, least=20
        )
    assert not summary.mismatches, "\n\n".join([*summary.mismatches, summary.text()])
    assert not summary.refused, summary.text()
    assert summary.cases >= 20, summary.text()
