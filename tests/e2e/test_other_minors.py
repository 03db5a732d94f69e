"""The main job on control planes of other minor releases than the default's: a sample of `make matrix`.

Nothing is built here: `python -m devcluster.toolchain 1.30 1.35 1.36 1.37` does, or `make matrix`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import environment, releases
from devcluster.cluster import LocalCluster
from devcluster.demo.pulumi import DemoStack
from devcluster.demo.workload import POD_COUNT, DemoWorkload
from devcluster.spec import ClusterSpec
from tests.support.minors import built_or_skip
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
CHECKOUT = Path(__file__).resolve().parents[2]
NAMESPACE = "openshift-secondary-scheduler-operator"
SAMPLE = ("1.30", "1.32", "1.33", "1.35", "1.36", "1.37")
"""All with an API server that can be built, but the default."""


@pytest.mark.parametrize("minor", SAMPLE)
def test_it_installs_and_places_pods_on_another_minor(minor: str, cluster_state_root: Path) -> None:
    built_or_skip(minor, *sorted(releases.COMPONENTS))
    name = f"minor-{minor.replace('.', '-')}"
    with LocalCluster(ClusterSpec(name=name, kubernetes=minor, state_root=cluster_state_root)) as cluster:
        variables = {**os.environ, **environment.variables(cluster.layout, cluster.prometheus_url, os.environ)}
        stack = DemoStack(CHECKOUT, "local", variables)
        stack.select()
        stack.up()
        api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        version = kubernetes.VersionApi(api).get_code()
        assert version.git_version == f"v{releases.RELEASES[minor].version}"
        workload = DemoWorkload(api, "demo", "secondary-scheduler")
        workload.create()
        workload.wait_bound(PATIENCE_SECONDS)
        assert sum(workload.pods_per_node().values()) == POD_COUNT
        # Devices are read since 1.34; what an older server does not serve is said, once the scheduler's Lease tells it.
        eventually(
            lambda: (
                ("resourceclaims (not served)" in _conditions(api)["Degraded"]["message"])
                is (minor in ("1.30", "1.33"))
            ),
            "the CR says what the server does not serve",
        )
        assert _conditions(api)["Available"]["status"] == "True"
        assert _conditions(api)["Degraded"]["status"] == "False"
        stack.destroy()


def _conditions(api: kubernetes.ApiClient) -> dict[str, dict[str, str]]:
    installed = kubernetes.CustomObjectsApi(api).get_namespaced_custom_object(
        "operator.openshift.io", "v1", NAMESPACE, "secondaryschedulers", "cluster"
    )
    return {each["type"]: each for each in installed["status"]["conditions"]}
