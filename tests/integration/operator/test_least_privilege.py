"""What the operator may do against what it does, by the API server's audit log, on a cluster that has every optional
kind: nothing is refused, and no verb is held in vain.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler.catalog import METRICS_READER_CLUSTER_ROLE, shipped_cluster_roles
from scheduler.config import configuration_hash
from scheduler.kube.client import KubeError
from secondary_scheduler.operator.options import LEASE_NAME
from tests.integration.operator.rights import Rights
from tests.integration.operator.support import create_highly_available
from tests.support.cluster import BARE, audit_flags
from tests.support.queries import NAMESPACE as SCRAPED_NAMESPACE, dashboard_queries
from tests.support.scraping import scraping
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG, OTHER_CONFIG

pytestmark = [pytest.mark.integration]

_CRDS = Path(__file__).parents[3] / "components/crds"
_COLLECTION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def control_plane(cluster_state_root, tmp_path_factory):
    """One of its own, for the kinds that change what the operator does."""
    flags = audit_flags(tmp_path_factory.mktemp("audit"))
    with LocalCluster(
        ClusterSpec(name="audited", state_root=cluster_state_root, api_server_flags=flags, **BARE)
    ) as cluster:
        yield cluster


def crd(group: str, plural: str, kind: str, scope: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    # Only members of the project may define kinds of some groups without this.
    annotations = {"api-approved.kubernetes.io": "unapproved, a test"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": annotations},
        "spec": {"group": group, "names": names, "scope": scope, "versions": [version]},
    }


@pytest.fixture(scope="module")
def every_kind(api):
    """Before the operator comes."""
    manifests = [
        crd("monitoring.coreos.com", "servicemonitors", "ServiceMonitor", "Namespaced"),
        crd("config.openshift.io", "apiservers", "APIServer", "Cluster"),
        *(
            yaml.safe_load((_CRDS / f"scheduling.x-k8s.io_{n}.yaml").read_text())
            for n in ("podgroups", "elasticquotas")
        ),
    ]
    for manifest in manifests:
        api.call("POST", _COLLECTION, manifest)
        spec = manifest["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"

        def served(path: str = path) -> bool:
            with contextlib.suppress(KubeError):
                api.call("GET", path)
                return True
            return False

        eventually(served, f"{path} served")
    server = {"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": {"name": "cluster"}}
    api.call(
        "POST",
        "/apis/config.openshift.io/v1/apiservers",
        {**server, "spec": {"tlsSecurityProfile": {"type": "Modern", "modern": {}}}},
    )


def node(api, name):
    api.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    ready = [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]
    path = f"/api/v1/nodes/{name}/status"
    api.call("PATCH", path, {"status": {"conditions": ready}}, "application/merge-patch+json")
    api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")


def budgets(api):
    return api.call("GET", f"/apis/policy/v1/namespaces/{api.namespace}/poddisruptionbudgets")["items"]


def live_through_everything(api):
    """Everything that makes the operator use its rights."""
    first = renewed(api)
    for name in ("n1", "n2"):
        node(api, name)
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    create_highly_available(api)
    api.wait_for_hash(configuration_hash(CONFIG))
    eventually(lambda: budgets(api), "a budget for two replicas")
    api.patch("secondaryschedulers", "cluster", {"spec": {"topology": None}})
    eventually(lambda: not budgets(api), "no budget for one")
    api.patch("configmaps", "config", {"data": {"config.yaml": OTHER_CONFIG}})
    api.wait_for_hash(configuration_hash(OTHER_CONFIG))
    monitors = f"/apis/monitoring.coreos.com/v1/namespaces/{api.namespace}/servicemonitors"
    eventually(lambda: api.call("GET", monitors)["items"], "ServiceMonitor")
    rebalanced(api)
    container = api.get("deployments", "secondary-scheduler")["spec"]["template"]["spec"]["containers"][0]
    assert "--tls-min-version=VersionTLS13" in container["args"]
    statuses(api)
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    # All of this may take less time than lies between two renewals.
    eventually(lambda: renewed(api) != first, "the operator's Lease is renewed")


def rebalanced(api):
    """A rebalancer that comes and goes."""
    api.patch("secondaryschedulers", "cluster", {"spec": {"rebalance": {"mode": "Predictive"}}})
    api.wait_for("RebalancerReady", "True")
    api.patch("secondaryschedulers", "cluster", {"spec": {"rebalance": None}})
    eventually(lambda: not api.condition("RebalancerReady"), "no rebalancer")


def renewed(api):
    return api.get("leases", LEASE_NAME)["spec"]["renewTime"]


def statuses(api):
    """A group and a quota whose status has to be written."""
    base = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{api.namespace}"
    identity = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "metadata": {"name": "g"}}
    api.call("POST", f"{base}/podgroups", {**identity, "kind": "PodGroup", "spec": {"minMember": 1}})
    limits = {"min": {"cpu": "1"}, "max": {"cpu": "2"}}
    api.call("POST", f"{base}/elasticquotas", {**identity, "kind": "ElasticQuota", "spec": limits})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    pod = {"metadata": {"name": "member", "labels": labels}, "spec": {"nodeName": "n1", "containers": [container]}}
    api.call("POST", api.path("pods"), pod)
    api.patch("pods", "member", {"status": {"phase": "Running"}}, "status")
    for plural in ("podgroups", "elasticquotas"):
        eventually(lambda p=plural: api.call("GET", f"{base}/{p}/g").get("status"), f"status of {plural}")


def token_of_a_scraper(api):
    """Of a ServiceAccount that is bound to the shipped ClusterRole for scrapers."""
    api.create("serviceaccounts", "prometheus")
    rules = [rule.to_dict() for rule in shipped_cluster_roles()[METRICS_READER_CLUSTER_ROLE]]
    group = "rbac.authorization.k8s.io"
    metadata = {"metadata": {"name": METRICS_READER_CLUSTER_ROLE}}
    api.call("POST", f"/apis/{group}/v1/clusterroles", {**metadata, "rules": rules})
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": METRICS_READER_CLUSTER_ROLE}
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": api.namespace}
    body = {**metadata, "roleRef": reference, "subjects": [subject]}
    api.call("POST", f"/apis/{group}/v1/clusterrolebindings", body)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    return api.call("POST", api.path("serviceaccounts", "prometheus") + "/token", request)["status"]["token"]


GRANTED = {("", "configmaps", "get"), ("apps", "deployments", "get")}
"""Held only because the operator grants them, to a rebalancer."""
ASKED_OF = {("", "pods", "get")}
"""Asked by the API server itself, of who writes a policy whose parameters are pods."""


@pytest.fixture(scope="module")
def rights(api):
    return Rights(api, rebalancers=True)


def held(rights):
    for rule in (*rights.cluster, *(rule for rules in rights.by_namespace.values() for rule in rules)):
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                if verb != "bind":
                    yield rule["apiGroups"][0], resource, verb


def test_nothing_is_held_in_vain(control_plane, every_kind, api, operator, kubelet, rights, tmp_path):
    target, labels = f"127.0.0.1:{operator.port('metrics_port')}", {"namespace": SCRAPED_NAMESPACE}
    with scraping(tmp_path, target, token_of_a_scraper(api), labels=labels) as prometheus:
        assert prometheus.wait_for("secondary_scheduler_operator_leader == 1") == 1
        live_through_everything(api)
        # At any time of the run: an instance that is deleted takes its series along.
        prometheus.wait_for(f"count_over_time(({dashboard_queries()['Conditions/A']})[10m:1s])")
    seen = list(rights.requests(control_plane))
    used = {request[:3] for request in seen}
    # Who creates by a patch needs the right to do both.
    used |= {
        (request.group, request.resource, "create")
        for request in seen
        if (request.verb, request.code) == ("patch", 201)
    }
    assert set(held(rights)) - used == GRANTED | ASKED_OF
    assert [request for request in seen if (request.resource, request.verb) == ("clusterrolebindings", "patch")]
    # The fixture that made the rights sees at the end that nothing was refused.
