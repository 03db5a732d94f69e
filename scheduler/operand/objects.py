"""The contents of the objects around the scheduler's Deployment."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from scheduler.catalog import (
    ANNOTATION_CONFIGURATION_HASH as ANNOTATION_CONFIGURATION_HASH,
    BASE_CLUSTER_ROLE,
    GO_CLUSTER_ROLES,
    METRIC_CREDENTIALS_DIRECTORY as METRIC_CREDENTIALS_DIRECTORY,
    OPERAND,
    cluster_role_name,
    static_cluster_roles,
)
from scheduler.config import Flavour

Json = dict[str, Any]

_RBAC_GROUP = "rbac.authorization.k8s.io"
_SERVICE_CA = "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt"
_PROMETHEUS_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 -- a path


def lease_rules(*leases: str) -> list[Json]:
    """Return the RBAC rules for holding Leases of these names."""
    leases_of_the_cluster = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return [
        {**leases_of_the_cluster, "resourceNames": list(leases), "verbs": ["get", "update"]},
        # RBAC cannot restrict create by name: the authorizer does not know the name yet.
        {**leases_of_the_cluster, "verbs": ["create"]},
    ]


def cluster_roles_for(run: Iterable[tuple[Collection[str], Flavour | None]]) -> list[str]:
    """Return the ClusterRoles to bind a scheduler to: the base role, and that of each enabled plugin with rules.

    An image that is not ours also gets the roles of the cluster's own scheduler. Plugins that only a custom image has
    have no ClusterRole here.

    Args:
        run: enabled plugins and flavour (None if unknown) of every revision that runs at the same time.
    """
    shipped = static_cluster_roles()
    wanted = [BASE_CLUSTER_ROLE]
    for plugins, flavour in run:
        wanted += [role for role in map(cluster_role_name, plugins) if role in shipped]
        if flavour is not None and not flavour.is_ours:
            wanted += GO_CLUSTER_ROLES
    return list(dict.fromkeys(wanted))


def cluster_role_ref(role: str) -> Json:
    """Return the roleRef of a binding to a ClusterRole."""
    return {"apiGroup": _RBAC_GROUP, "kind": "ClusterRole", "name": role}


def role_ref(role: str) -> Json:
    """Return the roleRef of a binding to a Role."""
    return {"apiGroup": _RBAC_GROUP, "kind": "Role", "name": role}


def account(operand: str, namespace: str) -> Json:
    """Return the scheduler's ServiceAccount as the subject of a binding."""
    return {"kind": "ServiceAccount", "name": operand, "namespace": namespace}


def metrics_service_spec(operand: str) -> Json:
    """Return the spec of the Service that Prometheus scrapes."""
    return scraped_service_spec(_pods(operand), "https", SECURE_PORT)


def scraped_service_spec(selector: Mapping[str, str], port: str, number: int) -> Json:
    """Return the spec of a Service for the metrics of pods with these labels; the port has a name and a number."""
    ports = [{"name": port, "port": number, "targetPort": number, "protocol": "TCP"}]
    return {"type": "ClusterIP", "selector": dict(selector), "ports": ports}


def metrics_service_annotations(operand: str) -> dict[str, str]:
    """Return the annotations that request a serving certificate from OpenShift's service CA."""
    return {"service.beta.openshift.io/serving-cert-secret-name": serving_cert_secret_name(operand)}


def disruption_budget_spec(operand: str) -> Json:
    """Return the spec of a PodDisruptionBudget that lets one replica at a time be drained.

    Do not use it for a single replica: its node could not be drained.
    """
    return {"maxUnavailable": 1, "selector": {"matchLabels": _pods(operand)}}


def flow_schema_spec(purpose: str, operand: str, namespace: str) -> Json:
    """Return the FlowSchema for one of `scheduler.catalog.FLOW_SCHEMAS`.

    They keep an API server under load from starving the Lease, whose loss ends the process, and the bindings. The
    priority levels are built into every API server.
    """
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"], "clusterScope": True}
    leases = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["*"],
        "namespaces": [namespace],
    }
    # Above the precedence of the API server's own schemas for service accounts (9,000) and workloads.
    level, precedence, rule = {
        "leases": ("leader-election", 150, leases),
        "requests": ("workload-high", 900, everything),
    }[purpose]
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": operand, "namespace": namespace}}
    return {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }


def service_monitor_spec(operand: str, namespace: str, *, openshift: bool) -> Json:
    """Return the spec of a ServiceMonitor for the metrics Service."""
    endpoint = scrape_endpoint("https", f"{metrics_service_name(operand)}.{namespace}.svc" if openshift else "")
    # The Service's name, which would be the label otherwise, says nothing of whose metrics they are.
    endpoint["relabelings"] = [{"action": "replace", "targetLabel": "job", "replacement": operand}]
    # The namespace of the pod that a metric is about; `namespace` is that of the scheduler which reports it.
    endpoint["metricRelabelings"] = [
        {"action": "replace", "sourceLabels": ["exported_namespace"], "targetLabel": "pod_namespace"}
    ]
    return scraping_monitor_spec(_pods(operand), namespace, endpoint)


def scraping_monitor_spec(selector: Mapping[str, str], namespace: str, endpoint: Json) -> Json:
    """Return the spec of a ServiceMonitor for the Services with these labels in a namespace."""
    return {
        "namespaceSelector": {"matchNames": [namespace]},
        "selector": {"matchLabels": dict(selector)},
        "endpoints": [endpoint],
    }


def scrape_endpoint(port: str, server_name: str = "") -> Json:
    """Return an endpoint of a ServiceMonitor: `/metrics` over HTTPS, with Prometheus' own token.

    `port` is the name of the Service's port. With a server name the certificate is verified, as one of OpenShift's
    service CA; without, it is self-signed.
    """
    return {
        "port": port,
        "scheme": "https",
        "path": "/metrics",
        "interval": "30s",
        "bearerTokenFile": _PROMETHEUS_TOKEN,
        "tlsConfig": (
            {"caFile": _SERVICE_CA, "serverName": server_name} if server_name else {"insecureSkipVerify": True}
        ),
    }


def _pods(operand: str) -> dict[str, str]:
    return {LABEL_APP: operand}


EVICTION_POLICY_BINDING: Json = {
    "validationActions": ["Deny"],
    # All pods of the namespace in which one is to be evicted.
    "paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"},
}
"""What binds the policy for evictions, without its name."""


def cel(value: str | list[str]) -> str:
    """Return a literal of CEL, whose strings and lists are written as JSON's."""
    return json.dumps(value)


def constraints(group: str, resources: list[str], operations: Sequence[str] = ("CREATE", "UPDATE")) -> Json:
    """Return the constraints of a policy with the API server's defaults written out.

    The field is atomic in server-side apply: without them it differs from what is there, and the update that adopts a
    policy that `kubectl` applied ends with a conflict.
    """
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": list(operations), "resources": resources}
    defaults = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    return {"resourceRules": [{**rule, "scope": "*"}], **defaults}


def evictions_policy(namespace: str, account: str, scheduler_names: Iterable[str]) -> Json:
    """Return the spec of the policy for a rebalancer's evictions: only of pods that name one of its profiles.

    An Eviction does not show its pod. So the pods of its namespace are the policy's parameters: the API server judges
    with each of them, from the copy of all pods that its Node authorizer keeps, and only the one of that name counts.

    Args:
        namespace, account: the rebalancer's ServiceAccount.
        scheduler_names: of the profiles.
    """
    user = f"system:serviceaccount:{namespace}:{account}"
    names = sorted(scheduler_names)
    return {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "Pod"},
        "matchConstraints": constraints("", ["pods/eviction"], ["CREATE"]),
        "matchConditions": [{"name": "by-the-rebalancer", "expression": f"request.userInfo.username == {cel(user)}"}],
        "validations": [
            {
                "expression": f"params.metadata.name != request.name || params.spec.schedulerName in {cel(names)}",
                "message": f"the rebalancer evicts only pods whose spec.schedulerName is {' or '.join(names)}",
                "reason": "Forbidden",
            }
        ],
    }


CONFIG_KEY = "config.yaml"
CONFIG_VOLUME = "etckubernetes"
CONFIG_DIRECTORY = "/etc/kubernetes"
CERTS_DIRECTORY = "/certs-dir"
SECURE_PORT = 10259

LABEL_APP = "app"


def lease_role_name(operand: str) -> str:
    """Return the name of Role and RoleBinding for a scheduler's Lease."""
    return f"{operand}-operand"


def metrics_service_name(operand: str) -> str:
    """Return the name of the Service that Prometheus scrapes."""
    return "metrics" if operand == OPERAND else f"{operand}-metrics"


def serving_cert_secret_name(operand: str) -> str:
    """Return the name of the Secret with the serving certificate, if one is provided."""
    return f"{operand}-serving-cert"


def secret_names(operand: str) -> tuple[str, ...]:
    """Return the names of the Secrets that a scheduler usually mounts: serving certificate and metric credentials.

    The operator looks whether these exist, and may read no others unless it is told their names.
    """
    return serving_cert_secret_name(operand), f"{operand}-metrics"
