"""The CRD on a real API server: what upstream accepts and refuses, and the optional fields of this project."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from components.crd import SECONDARY_SCHEDULERS, bundled_crds, load_manifest

GROUP, VERSION, PLURAL = "operator.openshift.io", "v1", "secondaryschedulers"
NAMESPACE = "crd-test"

ACCEPTED = {
    "an empty spec": {},
    "upstream's sample": {
        "managementState": "Managed",
        "schedulerConfig": "secondary-scheduler-config",
        "schedulerImage": "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.33.5",
        "logLevel": "",
        "operatorLogLevel": "TraceAll",
        "unsupportedConfigOverrides": {"any": {"thing": 1}},
        "observedConfig": None,
    },
    "high availability": {
        "topology": {
            "mode": "HighlyAvailable",
            "highlyAvailableTopology": {
                "maxReplicas": 3,
                "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
                "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            },
        }
    },
    "every extension": {
        "resources": {"requests": {"cpu": "100m", "memory": 1000}, "limits": {"memory": "1Gi"}},
        "scrapeNamespaces": ["monitoring", "0-ops"],
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "pull"}],
        "command": ["/kube-scheduler"],
        "extraArgs": ["--v=4"],
        "env": [{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "leaderElection": {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "1m30s"},
        "metricCredentials": {"secretName": "metrics"},
        "rollout": {"canary": False},
        "without": ["FlowSchema", "ServiceMonitor", "ValidatingAdmissionPolicy"],
        "configPolicy": "PassThrough",
        "flavour": "scheduler-plugins@0.34.7",
        "extraPlugins": [{"name": "GpuAware", "points": ["filter", "score"]}],
    },
}
ACCEPTED |= {
    "a rebalancer with nothing but a mode": {"rebalance": {"mode": "Off"}},
    "a rebalancer with everything": {
        "rebalance": {
            "mode": "Automatic",
            "image": "registry.example.com/secondary-scheduler/operator:0.2.0",
            "intervalSeconds": 60,
            "thresholds": {"cpu": 10, "memory": 20.5},
            "targetThresholds": {"cpu": 5, "memory": 20},
            "useDeviationThresholds": True,
            "consecutiveAbnormalities": 1,
            "minimumGain": 7,
            "evictionLimits": {"total": 0, "node": 1, "namespace": 1, "workload": "100%"},
            "cooldownSeconds": 0,
            "maxCooldownSeconds": 60,
            "historyWindowSeconds": 0,
            "minPodAgeSeconds": 0,
            "minReplicas": 1,
            "priorityThreshold": -5,
            "namespaces": {"include": ["shop"], "exclude": ["kitchen"]},
            "podSelector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["b"]},
                    {"key": "a", "operator": "DoesNotExist"},
                ],
            },
            "evictLocalStorage": True,
            "evictJobs": True,
            "evictPodsWithoutPDB": False,
        }
    },
    "a rebalancer that judges memory only": {
        "rebalance": {"mode": "Predictive", "thresholds": {"memory": 1}, "targetThresholds": {"memory": 1}}
    },
    "a number of a workload's pods": {"rebalance": {"mode": "Predictive", "evictionLimits": {"workload": 3}}},
}
REFUSED = {
    "a management state that is none": ({"managementState": "Paused"}, "spec.managementState"),
    "a log level that is none": ({"logLevel": "Loud"}, "spec.logLevel"),
    "replicas without high availability": (
        {"topology": {"highlyAvailableTopology": {"maxReplicas": 3}}},
        "highlyAvailableTopology can only be set when mode is HighlyAvailable",
    ),
    "no replicas": (
        {"topology": {"mode": "HighlyAvailable", "highlyAvailableTopology": {"maxReplicas": 0}}},
        "should be greater than or equal to 1",
    ),
    "a quantity that is none": ({"resources": {"limits": {"cpu": "much"}}}, "spec.resources.limits.cpu"),
    "a namespace that is none": ({"scrapeNamespaces": ["a.b"]}, "spec.scrapeNamespaces[0]"),
    "too many namespaces": ({"scrapeNamespaces": [f"n{number}" for number in range(33)]}, "spec.scrapeNamespaces"),
    "a duration that is none": ({"leaderElection": {"leaseDuration": "soon"}}, "spec.leaderElection.leaseDuration"),
    "credentials from nowhere": ({"metricCredentials": {}}, "exactly one of secretName and serviceAccount"),
    "credentials of two origins": (
        {"metricCredentials": {"secretName": "metrics", "serviceAccount": {"audience": "metrics"}}},
        "exactly one of secretName and serviceAccount",
    ),
    "the ServiceAccount's token for anybody": (
        {"metricCredentials": {"serviceAccount": {}}},
        "needs an https address",
    ),
    "the ServiceAccount's token over HTTP": (
        {"metricCredentials": {"serviceAccount": {}, "address": "http://thanos:9091"}},
        "needs an https address",
    ),
    "an address with a password": (
        {"metricCredentials": {"secretName": "metrics", "address": "https://user:password@thanos:9091"}},
        "spec.metricCredentials.address",
    ),
    "an empty command": ({"command": []}, "spec.command"),
    "an object that is not optional": ({"without": ["Service"]}, "spec.without"),
    "a flavour that is none": ({"flavour": "mine"}, "spec.flavour"),
    "a plugin without points": ({"extraPlugins": [{"name": "A"}]}, "spec.extraPlugins[0].points: Required"),
    "a point that is none": (
        {"extraPlugins": [{"name": "A", "points": ["scoring"]}]},
        "spec.extraPlugins[0].points[0]",
    ),
    "a plugin twice": (
        {"extraPlugins": [{"name": "A", "points": ["bind"]}, {"name": "A", "points": ["bind"]}]},
        "spec.extraPlugins[1]: Duplicate value",
    ),
    **{
        f"a rebalancer: {name}": ({"rebalance": {"mode": "Predictive", **wrong}}, message)
        for name, (wrong, message) in {
            "an unknown mode": ({"mode": "On"}, "spec.rebalance.mode"),
            "no interval": ({"intervalSeconds": 1}, "spec.rebalance.intervalSeconds"),
            "more than all": ({"thresholds": {"cpu": 101, "memory": 1}}, "spec.rebalance.thresholds.cpu"),
            "a share of more than all": ({"evictionLimits": {"workload": "101%"}}, "spec.rebalance.evictionLimits"),
            "fewer than none": ({"evictionLimits": {"workload": -1}}, "spec.rebalance.evictionLimits.workload"),
            "no replicas": ({"minReplicas": 0}, "spec.rebalance.minReplicas"),
            "a resource on one side": ({"thresholds": {"cpu": 1}}, "memory must be in thresholds and in target"),
            "no resource": ({"thresholds": {}, "targetThresholds": {}}, "names neither cpu nor memory"),
            "above the default target": ({"thresholds": {"cpu": 81, "memory": 1}}, "thresholds.cpu (50 if absent)"),
            "below the default threshold": (
                {"targetThresholds": {"cpu": 60, "memory": 59.5}},
                "thresholds.memory (60 if absent) must not be above",
            ),
            "deviations from nothing": ({"useDeviationThresholds": True}, "useDeviationThresholds needs"),
            "a cooldown above its most": ({"cooldownSeconds": 30000}, "must be at least cooldownSeconds"),
            "a selector without values": (
                {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
                "values belong to In and NotIn",
            ),
            "a selector with values too many": (
                {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
                "values belong to In and NotIn",
            ),
        }.items()
    },
    "a rebalancer without a mode": ({"rebalance": {"minReplicas": 3}}, "spec.rebalance.mode: Required"),
    "a policy that is none": ({"configPolicy": "Hope"}, "spec.configPolicy"),
}


@pytest.fixture(scope="module")
def api(control_plane: Any) -> Iterator[client.CustomObjectsApi]:
    kubeconfig: Path = control_plane.kubeconfig
    api_client = config.new_client_from_config(str(kubeconfig))
    definitions = client.ApiextensionsV1Api(api_client)
    manifest = load_manifest()
    name = manifest["metadata"]["name"]
    created = name not in {d.metadata.name for d in definitions.list_custom_resource_definition().items}
    if created:
        definitions.create_custom_resource_definition(manifest)
    wait_until_established(definitions, name)
    client.CoreV1Api(api_client).create_namespace({"metadata": {"name": NAMESPACE}})
    yield client.CustomObjectsApi(api_client)
    client.CoreV1Api(api_client).delete_namespace(NAMESPACE)
    if created:
        definitions.delete_custom_resource_definition(name)


@pytest.mark.parametrize("name", sorted(bundled_crds()))
def test_a_bundled_crd_is_found_under_its_own_name(name: str) -> None:
    manifest = load_manifest(name)
    assert manifest["kind"] == "CustomResourceDefinition"
    assert manifest["metadata"]["name"] == name


@pytest.mark.integration
@pytest.mark.parametrize("name", sorted(bundled_crds() - {SECONDARY_SCHEDULERS}))
def test_the_api_server_serves_every_bundled_crd(name: str, control_plane: Any) -> None:
    definitions = client.ApiextensionsV1Api(config.new_client_from_config(str(control_plane.kubeconfig)))
    try:
        definitions.create_custom_resource_definition(load_manifest(name))
    except client.ApiException as error:
        if error.status != 409:  # another test's
            raise
    wait_until_established(definitions, name)
    conditions = {
        condition.type: condition for condition in definitions.read_custom_resource_definition(name).status.conditions
    }
    # Without it the API server would not prune, and the schema is not to be relied on.
    assert "NonStructuralSchema" not in conditions or conditions["NonStructuralSchema"].status == "False"


@pytest.mark.integration
@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepts(spec: dict[str, Any], api: client.CustomObjectsApi) -> None:
    created = create(api, spec)
    assert created["spec"]["operatorLogLevel"] in ("Normal", "TraceAll")
    assert pruned_away(spec, created["spec"]) == []


@pytest.mark.integration
@pytest.mark.parametrize(("spec", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refuses(spec: dict[str, Any], message: str, api: client.CustomObjectsApi) -> None:
    with pytest.raises(client.ApiException) as refused:
        create(api, spec)
    assert refused.value.status == 422
    assert message in refused.value.body


@pytest.mark.integration
def test_the_key_of_the_token_defaults_to_token(api: client.CustomObjectsApi) -> None:
    created = create(api, {"metricCredentials": {"secretName": "metrics"}})
    assert created["spec"]["metricCredentials"]["key"] == "token"


@pytest.mark.integration
def test_status_is_a_subresource_with_every_field_that_the_operator_reports(api: client.CustomObjectsApi) -> None:
    status = {
        "observedGeneration": 1,
        "readyReplicas": 1,
        "version": "0.1.0",
        "configurationHash": "0123456789abcdef",
        "kubernetesVersion": "1.36",
        "schedulerNames": ["a", "b"],
        "latestAvailableRevision": 2,
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": "R",
                "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind in (
                "Available",
                "Progressing",
                "Degraded",
                "LoadDataFresh",
                "NodesOvercommitted",
                "KubernetesVersionCurrent",
                "CacheCurrent",
                "Upgradeable",
            )
        ],
        "generations": [
            {
                "group": "apps",
                "resource": "deployments",
                "namespace": "n",
                "name": "x",
                "lastGeneration": 1,
                "hash": "h",
            }
        ],
    }
    name = "status"
    api.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, resource(name, {}) | {"status": status})
    body = {"status": status}
    patched = api.patch_namespaced_custom_object_status(GROUP, VERSION, NAMESPACE, PLURAL, name, body)
    assert patched["status"] == status
    lower = {"status": {"latestAvailableRevision": 1}}
    with pytest.raises(client.ApiException) as refused:
        api.patch_namespaced_custom_object_status(GROUP, VERSION, NAMESPACE, PLURAL, name, lower)
    assert "must only increase" in refused.value.body


@pytest.mark.integration
def test_get_prints_the_useful_columns(api: client.CustomObjectsApi) -> None:
    name = "printed"
    api.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, resource(name, {"schedulerImage": "i:1"}))
    conditions = [
        {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind, status in (("Available", "True"), ("Degraded", "False"))
    ]
    body = {"status": {"readyReplicas": 2, "schedulerNames": ["a", "b"], "conditions": conditions}}
    api.patch_namespaced_custom_object_status(GROUP, VERSION, NAMESPACE, PLURAL, name, body)
    answer, _, _ = api.api_client.call_api(
        f"/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}/{PLURAL}/{name}",
        "GET",
        header_params={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
        auth_settings=["BearerToken"],
        response_type="object",
    )
    shown = dict(zip((c["name"] for c in answer["columnDefinitions"]), answer["rows"][0]["cells"], strict=True))
    assert shown.pop("Age")
    assert shown == {
        "Name": name,
        "Image": "i:1",
        "Schedulers": '["a","b"]',
        "Ready": 2,
        "Available": "True",
        "Degraded": "False",
    }


def create(api: client.CustomObjectsApi, spec: dict[str, Any]) -> dict[str, Any]:
    created: dict[str, Any] = api.create_namespaced_custom_object(
        GROUP, VERSION, NAMESPACE, PLURAL, resource("dry", spec), dry_run="All"
    )
    return created


def resource(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "SecondaryScheduler", "metadata": {"name": name}, "spec": spec}


def pruned_away(sent: Any, stored: Any, path: str = "spec") -> list[str]:
    """Paths that the API server dropped because the schema does not know them."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return [lost for key in sent for lost in pruned_away(sent[key], stored.get(key, None), f"{path}.{key}")]
    return [] if sent == stored else [path]


def wait_until_established(definitions: client.ApiextensionsV1Api, name: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        conditions = definitions.read_custom_resource_definition(name).status.conditions or []
        if any(condition.type == "Established" and condition.status == "True" for condition in conditions):
            return
        time.sleep(0.1)
    raise AssertionError(f"{name} is not served")
