"""What the operator may do, verb by verb.

It holds no right of the scheduler itself: it may `bind` the static ClusterRoles of the install, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_READ = ("list", "watch")
_WRITE = ("create", "patch", "delete")
_RBAC = "rbac.authorization.k8s.io"
_LEASES = "coordination.k8s.io"
_OPERATOR_LEASE = "openshift-secondary-scheduler-operator-lock"  # upstream's name: never two operators on one resource
_SCHEDULER_LEASE = "secondary-scheduler"


def cluster_rules(bindable_roles: Iterable[str]) -> list[dict[str, Any]]:
    """Rules without a namespace: bind the scheduler's account to these roles; a binding is named like its role."""
    names = sorted(bindable_roles)
    return [
        _rule(_RBAC, ["clusterrolebindings"], _READ),
        _rule(_RBAC, ["clusterrolebindings"], _WRITE, names),
        _rule(_RBAC, ["clusterroles"], ["bind"], names),
    ]


def namespace_rules() -> list[dict[str, Any]]:
    """Rules in the operator's own namespace."""
    return [
        _rule("operator.openshift.io", ["secondaryschedulers"], [*_READ, "patch"]),
        _rule("operator.openshift.io", ["secondaryschedulers/status"], ["patch"]),
        _rule("", ["configmaps", "serviceaccounts", "services"], [*_READ, *_WRITE]),
        # Of Secrets it wants to know only whether those that the scheduler mounts are there.
        _rule("", ["secrets", "pods"], _READ),
        _rule("", ["events"], ["create"]),
        _rule("apps", ["deployments"], [*_READ, *_WRITE]),
        _rule(_RBAC, ["roles", "rolebindings"], [*_READ, *_WRITE]),
        _rule(_LEASES, ["leases"], ["create"]),
        _rule(_LEASES, ["leases"], ["get", "update"], [_OPERATOR_LEASE]),
        # Held to be passed on to the scheduler (get, update, patch), watched for its reports, deleted at the end.
        _rule(_LEASES, ["leases"], [*_READ, "get", "update", "patch", "delete"], [_SCHEDULER_LEASE]),
    ]


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()) -> dict[str, Any]:
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule
