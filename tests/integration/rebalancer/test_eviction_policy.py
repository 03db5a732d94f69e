"""The policy that a stack installs beside its rebalancer, on a real API server: whose pods its token can evict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import components
from components.settings import RebalancerPlan
from scheduler.config import OptionalObjects, SchedulerSettings, load_configuration
from scheduler.kube.client import ClientConfig, Forbidden, SyncConnection, api_path
from tests.components.graph import register
from tests.integration.rebalancer.stage import (
    NAMESPACE,
    PROFILE,
    WORKLOADS,
    RebalancedCluster,
    account_of_the_stack,
    configuration,
)
from tests.support.cluster import MakeCluster
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
OTHER = "default-scheduler"


@pytest.fixture
def stage(make_cluster: MakeCluster) -> Iterator[RebalancedCluster]:
    cluster = make_cluster(nodes=1, real_nodes=0, prometheus=False, default_scheduler=False)
    stage = RebalancedCluster(Path(cluster.kubeconfig))
    for name in (NAMESPACE, WORKLOADS):
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield stage
    stage.close()


def install_policy(stage: RebalancedCluster, text: str) -> None:
    loaded = load_configuration(text, source="test", allow_token_in_config_map=True)
    settings = SchedulerSettings(objects=OptionalObjects(network_policy=False))
    args = components.RebalancerArgs(
        namespace=NAMESPACE,
        plan=RebalancerPlan("Automatic", {}),
        image="image",
        configuration=loaded,
        config_map_name="configuration",
        settings=settings,
    )
    graph = register(lambda: components.Rebalancer("rebalancer", args), config={})
    for kind, plural in _PLURALS.items():
        (item,) = graph.of(kind)
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, **item.manifest}
        path = api_path(body["apiVersion"], plural, name=body["metadata"]["name"])
        stage.patch(path, body)


def pod(name: str, scheduler: str) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example.com/c:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": WORKLOADS},
        "spec": {"schedulerName": scheduler, "nodeName": "sim-000", "containers": [container]},
    }


def evict(connection: SyncConnection, name: str, *, dry_run: bool = False) -> None:
    options = {"deleteOptions": {"dryRun": ["All"]}} if dry_run else {}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": WORKLOADS}}
    path = api_path("v1", "pods", namespace=WORKLOADS, name=name, subresource="eviction")
    connection.request("POST", path, body={**body, **options})


def test_its_token_evicts_pods_of_its_profiles_and_no_others(stage: RebalancedCluster, tmp_path: Path) -> None:
    text = configuration("http://127.0.0.1:2020", stage.kubeconfig)
    account = account_of_the_stack(stage, text, tmp_path)
    for name, scheduler in (("ours", PROFILE), ("theirs", OTHER), ("theirs-too", OTHER)):
        stage.apply(pod(name, scheduler))
    token = SyncConnection(ClientConfig.load(account), timeout=30.0)
    administrator = SyncConnection(ClientConfig.load(stage.kubeconfig), timeout=30.0)
    # By its rights alone it could evict them.
    evict(token, "theirs", dry_run=True)
    install_policy(stage, text)

    def refused() -> str:
        try:
            evict(token, "theirs", dry_run=True)
        except Forbidden as error:
            return str(error)
        return ""

    message = eventually(refused, "the API server has taken up the policy")
    assert f"only pods whose spec.schedulerName is {PROFILE}" in message
    with pytest.raises(Forbidden):
        evict(token, "theirs")
    evict(token, "ours")
    evict(administrator, "theirs-too")
    eventually(
        lambda: [item["metadata"]["name"] for item in stage.pods()] == ["theirs"],
        "the two others are gone",
        diagnosis=lambda: json.dumps([item["metadata"] for item in stage.pods()]),
    )
    token.close()
    administrator.close()
