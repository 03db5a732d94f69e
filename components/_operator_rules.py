"""What the operator may do, verb by verb.

It holds no right of the scheduler itself: it may `bind` the static ClusterRoles of the install, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scheduler.catalog import FLOW_SCHEMAS, GO_CLUSTER_ROLES, cluster_role_binding_name, flow_schema_name

_READ = ("list", "watch")
_WRITE = ("create", "patch", "delete")
_RBAC = "rbac.authorization.k8s.io"
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
_LEASES = "coordination.k8s.io"
_GROUPS = "scheduling.x-k8s.io"
_OPERATOR_LEASE = "openshift-secondary-scheduler-operator-lock"  # upstream's name: never two operators on one resource
_INSTANCE = "cluster"
_SCHEDULER_LEASES = ("secondary-scheduler", "secondary-scheduler-canary")


def cluster_rules(bindable_roles: Iterable[str], namespace: str) -> list[dict[str, Any]]:
    """Rules without a namespace: bind the account of the scheduler in this namespace to these roles, and keep the
    status of PodGroups and ElasticQuotas."""
    roles = sorted({*bindable_roles, *GO_CLUSTER_ROLES})
    bindings = [cluster_role_binding_name(role, namespace) for role in roles]
    return [
        _rule(_RBAC, ["clusterrolebindings"], _READ),
        _rule(_RBAC, ["clusterrolebindings"], _WRITE, bindings),
        _rule(_RBAC, ["clusterroles"], ["bind"], roles),
        # For the status of PodGroups and ElasticQuotas, where these are installed: pods of all namespaces are counted.
        _rule(_GROUPS, ["podgroups", "elasticquotas"], _READ),
        _rule(_GROUPS, ["podgroups/status", "elasticquotas/status"], ["patch"]),
        _rule("", ["pods"], _READ),
        _rule(_FLOW_CONTROL, ["flowschemas"], _READ),
        _rule(
            _FLOW_CONTROL, ["flowschemas"], _WRITE, [flow_schema_name(purpose, namespace) for purpose in FLOW_SCHEMAS]
        ),
        # OpenShift's TLS profile.
        _rule("config.openshift.io", ["apiservers"], _READ),
        # Not in the Role alone: where a namespace is deleted with its Roles, the instance in it must still be let go.
        _rule("operator.openshift.io", ["secondaryschedulers"], ["patch"], [_INSTANCE]),
        # How many nodes could run one of several replicas.
        _rule("", ["nodes"], _READ),
    ]


def namespace_rules() -> list[dict[str, Any]]:
    """Rules in the operator's own namespace."""
    return [
        _rule("operator.openshift.io", ["secondaryschedulers"], [*_READ, "patch"]),
        _rule("operator.openshift.io", ["secondaryschedulers/status"], ["patch"]),
        _rule("", ["configmaps", "serviceaccounts", "services"], [*_READ, *_WRITE]),
        # Of Secrets it wants to know only whether those that the scheduler mounts are there.
        _rule("", ["secrets"], _READ),
        # Written: the one pod that a candidate for a new configuration has to bind.
        _rule("", ["pods"], [*_READ, *_WRITE]),
        _rule("", ["events"], ["create"]),
        _rule("apps", ["deployments"], [*_READ, *_WRITE]),
        _rule(_RBAC, ["roles", "rolebindings"], [*_READ, *_WRITE]),
        _rule("policy", ["poddisruptionbudgets"], [*_READ, *_WRITE]),
        _rule("networking.k8s.io", ["networkpolicies"], [*_READ, *_WRITE]),
        _rule("monitoring.coreos.com", ["servicemonitors"], [*_READ, *_WRITE]),
        _rule(_LEASES, ["leases"], ["create"]),
        _rule(_LEASES, ["leases"], ["get", "update"], [_OPERATOR_LEASE]),
        # Watched for what schedulers report there, whatever they are called.
        _rule(_LEASES, ["leases"], _READ),
        # Held to be passed on to the scheduler and its candidate (get, update, patch), deleted at the end.
        _rule(_LEASES, ["leases"], ["get", "update", "patch", "delete"], _SCHEDULER_LEASES),
    ]


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()) -> dict[str, Any]:
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule
