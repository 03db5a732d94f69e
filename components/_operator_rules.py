"""RBAC rules of the operator, verb by verb.

The operator has none of the scheduler's rights itself, nor the rebalancer's: it may only `bind` the static ClusterRoles
of the installation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from scheduler import operand
from scheduler.catalog import (
    CANARY_SUFFIX,
    FLOW_SCHEMAS,
    GO_CLUSTER_ROLES,
    INSTANCE_NAME,
    OPERAND,
    REBALANCER_CLUSTER_ROLE,
    STATUS_KINDS,
    cluster_role_binding_name,
    eviction_policy_name,
    flow_schema_name,
    operand_name,
    rebalancer_name,
)

_READ = ("list", "watch")
_WRITE = ("create", "patch", "delete")
_RBAC = "rbac.authorization.k8s.io"
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
_LEASES = "coordination.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_POLICIES = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
_GROUPS = "scheduling.x-k8s.io"
_OPERATOR_LEASE = "openshift-secondary-scheduler-operator-lock"
"""Upstream's name, so that two operators never serve one resource."""
Instance = tuple[str, str]
"""Namespace and name of a SecondaryScheduler."""


def cluster_rules(
    bindable_roles: Iterable[str],
    instances: Collection[Instance],
    status_of: Collection[str] = STATUS_KINDS,
    *,
    rebalancers: bool = False,
) -> list[dict[str, Any]]:
    """Return the cluster-wide rules.

    Args:
        bindable_roles: ClusterRoles that the operator may bind schedulers to.
        instances: namespaces and names of the SecondarySchedulers it serves.
        status_of: plurals of the kinds of scheduler-plugins whose status it maintains.
        rebalancers: whether it may run rebalancers. One that runs already it may always take away.
    """
    roles = sorted({*bindable_roles, *GO_CLUSTER_ROLES})
    schedulers = [(namespace, operand_name(name)) for namespace, name in instances]
    bindings = [
        cluster_role_binding_name(role, *scheduler)
        for scheduler in schedulers
        for role in (*roles, REBALANCER_CLUSTER_ROLE)
    ]
    flow_schemas = [flow_schema_name(purpose, *scheduler) for scheduler in schedulers for purpose in FLOW_SCHEMAS]
    kinds = [kind for kind in STATUS_KINDS if kind in status_of]
    return [
        _rule(_RBAC, ["clusterrolebindings"], _READ),
        _rule(_RBAC, ["clusterrolebindings"], _WRITE, bindings),
        _rule(_RBAC, ["clusterroles"], ["bind"], [*roles, *([REBALANCER_CLUSTER_ROLE] if rebalancers else [])]),
        *(_status_rules(kinds) if kinds else []),
        _rule(_FLOW_CONTROL, ["flowschemas"], _READ),
        _rule(_FLOW_CONTROL, ["flowschemas"], _WRITE, flow_schemas),
        *_policy_rules([eviction_policy_name(*scheduler) for scheduler in schedulers], rebalancers=rebalancers),
        # OpenShift's TLS profile.
        _rule("config.openshift.io", ["apiservers"], _READ),
        # Not only in the Role: a deleted namespace loses its Roles, and the instance's finalizer must still be removed.
        _rule("operator.openshift.io", ["secondaryschedulers"], _READ),
        _rule("operator.openshift.io", ["secondaryschedulers"], ["patch"], _unique(name for _, name in instances)),
        # To see whether they are being deleted.
        _rule("", ["namespaces"], _READ, _unique(namespace for namespace, _ in instances)),
        # Who may read its metrics is the API server's to say.
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
        # To count the nodes that could run one of several replicas.
        _rule("", ["nodes"], _READ),
    ]


def _policy_rules(policies: list[str], *, rebalancers: bool) -> list[dict[str, Any]]:
    """Rules for the policies that bound rebalancers' evictions. No policy can say what these may hold: the API server
    judges policies by none."""
    rules = [_rule(_ADMISSION, _POLICIES, _READ), _rule(_ADMISSION, _POLICIES, ["delete"], policies)]
    if rebalancers:
        rules.append(_rule(_ADMISSION, _POLICIES, ["create", "patch"], policies))
        # The policies' parameters are pods. Whoever writes such a policy must be allowed to get them, and who writes a
        # binding that selects them, to list them.
        rules.append(_rule("", ["pods"], ["get", "list"]))
    return rules


def _status_rules(kinds: list[str]) -> list[dict[str, Any]]:
    """Rules for maintaining the status of these kinds; pods of all namespaces are counted."""
    return [
        _rule(_GROUPS, kinds, _READ),
        _rule(_GROUPS, [f"{kind}/status" for kind in kinds], ["patch"]),
        _rule("", ["pods"], _READ),
    ]


def namespace_rules(
    instances: Iterable[str] = (INSTANCE_NAME,), secrets: Iterable[str] = operand.secret_names(OPERAND)
) -> list[dict[str, Any]]:
    """Return the rules in a namespace with instances of these names.

    `secrets` are the names of the Secrets that the operator watches, in every namespace the same.
    """
    operands = [operand_name(name) for name in instances]
    with_canaries = [name for each in operands for name in (each, f"{each}{CANARY_SUFFIX}")]
    lease_roles = [operand.lease_role_name(each) for each in operands]
    services = [operand.metrics_service_name(each) for each in operands]
    rebalancers = [rebalancer_name(each) for each in operands]
    with_rebalancers = [*operands, *rebalancers]
    return [
        # Instances of any name: one that is not served gets a condition that says so.
        _rule("operator.openshift.io", ["secondaryschedulers"], ["patch"]),
        _rule("operator.openshift.io", ["secondaryschedulers/status"], ["patch"]),
        # Written: copies of configurations, which are named after their content.
        _rule("", ["configmaps"], [*_READ, *_WRITE]),
        *_named("", "serviceaccounts", with_rebalancers),
        *_named("", "services", [*services, *rebalancers]),
        # It only checks that the Secrets which the scheduler mounts exist.
        _rule("", ["secrets"], _READ, _unique(secrets)),
        # Written: the one pod that a canary has to bind.
        _rule("", ["pods"], [*_READ, *_WRITE]),
        _rule("", ["events"], ["create"]),
        *_named("apps", "deployments", [*with_canaries, *rebalancers]),
        *_named(_RBAC, "roles", [*lease_roles, *rebalancers]),
        *_named(_RBAC, "rolebindings", [*lease_roles, *rebalancers]),
        # Granted to the rebalancer: its status, and the scheduler's health.
        _rule("", ["configmaps"], ["get"], rebalancers),
        _rule("apps", ["deployments"], ["get"], operands),
        *_named("policy", "poddisruptionbudgets", operands),
        *_named("networking.k8s.io", "networkpolicies", with_rebalancers),
        *_named("monitoring.coreos.com", "servicemonitors", with_rebalancers),
        _rule(_LEASES, ["leases"], ["create"]),
        _rule(_LEASES, ["leases"], ["get", "update"], [_OPERATOR_LEASE]),
        # Watched for what schedulers of any name report in them.
        _rule(_LEASES, ["leases"], _READ),
        # Granted to the scheduler, its canary and its rebalancer (get, update), and deleted at the end.
        _rule(_LEASES, ["leases"], ["get", "update", "delete"], [*with_canaries, *rebalancers]),
    ]


def _named(group: str, resource: str, names: list[str]) -> list[dict[str, Any]]:
    """Reads of all, writes of these. RBAC knows the name of an object that a server-side apply creates."""
    return [_rule(group, [resource], _READ), _rule(group, [resource], _WRITE, names)]


def _unique(names: Iterable[str]) -> list[str]:
    return sorted(set(names))


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()) -> dict[str, Any]:
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule
