"""What the operator may do, verb by verb.

It holds no right of the scheduler itself: it may `bind` the static ClusterRoles of the install, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from scheduler.catalog import (
    CANARY_SUFFIX,
    FLOW_SCHEMAS,
    GO_CLUSTER_ROLES,
    INSTANCE_NAME,
    STATUS_KINDS,
    cluster_role_binding_name,
    flow_schema_name,
    operand_name,
)

_READ = ("list", "watch")
_WRITE = ("create", "patch", "delete")
_RBAC = "rbac.authorization.k8s.io"
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
_LEASES = "coordination.k8s.io"
_GROUPS = "scheduling.x-k8s.io"
_OPERATOR_LEASE = "openshift-secondary-scheduler-operator-lock"  # upstream's name: never two operators on one resource
Instance = tuple[str, str]
"""Namespace and name of a SecondaryScheduler."""


def cluster_rules(
    bindable_roles: Iterable[str], instances: Collection[Instance], status_of: Collection[str] = STATUS_KINDS
) -> list[dict[str, Any]]:
    """Rules without a namespace: bind the accounts of these instances' schedulers to these roles, and keep the status
    of kinds of scheduler-plugins, by their plurals."""
    roles = sorted({*bindable_roles, *GO_CLUSTER_ROLES})
    schedulers = [(namespace, operand_name(name)) for namespace, name in instances]
    bindings = [cluster_role_binding_name(role, *scheduler) for scheduler in schedulers for role in roles]
    flow_schemas = [flow_schema_name(purpose, *scheduler) for scheduler in schedulers for purpose in FLOW_SCHEMAS]
    kinds = [kind for kind in STATUS_KINDS if kind in status_of]
    return [
        _rule(_RBAC, ["clusterrolebindings"], _READ),
        _rule(_RBAC, ["clusterrolebindings"], _WRITE, bindings),
        _rule(_RBAC, ["clusterroles"], ["bind"], roles),
        *(_status_rules(kinds) if kinds else []),
        _rule(_FLOW_CONTROL, ["flowschemas"], _READ),
        _rule(_FLOW_CONTROL, ["flowschemas"], _WRITE, flow_schemas),
        # OpenShift's TLS profile.
        _rule("config.openshift.io", ["apiservers"], _READ),
        # Not in the Role alone: where a namespace is deleted with its Roles, the instance in it must still be let go.
        _rule("operator.openshift.io", ["secondaryschedulers"], _READ),
        _rule("operator.openshift.io", ["secondaryschedulers"], ["patch"], _unique(name for _, name in instances)),
        # Whether they are being deleted.
        _rule("", ["namespaces"], _READ, _unique(namespace for namespace, _ in instances)),
        # How many nodes could run one of several replicas.
        _rule("", ["nodes"], _READ),
    ]


def _status_rules(kinds: list[str]) -> list[dict[str, Any]]:
    """Where these kinds are installed; pods of all namespaces are counted."""
    return [
        _rule(_GROUPS, kinds, _READ),
        _rule(_GROUPS, [f"{kind}/status" for kind in kinds], ["patch"]),
        _rule("", ["pods"], _READ),
    ]


def namespace_rules(instances: Iterable[str] = (INSTANCE_NAME,)) -> list[dict[str, Any]]:
    """Rules in a namespace with instances of these names."""
    operands = [operand_name(name) for name in instances]
    leases = [lease for operand in operands for lease in (operand, f"{operand}{CANARY_SUFFIX}")]
    return [
        # An instance of any other name is told what it lacks.
        _rule("operator.openshift.io", ["secondaryschedulers"], ["patch"]),
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
        _rule(_LEASES, ["leases"], ["get", "update", "patch", "delete"], leases),
    ]


def _unique(names: Iterable[str]) -> list[str]:
    return sorted(set(names))


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()) -> dict[str, Any]:
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule
