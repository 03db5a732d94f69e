"""Exactly the rights the operator needs: the tests run it with these, and nothing may be refused."""

from collections.abc import Iterable
from typing import Any

_READ = ("list", "watch")
_WRITE = ("create", "patch", "delete")
_RBAC = "rbac.authorization.k8s.io"
_LEASES = "coordination.k8s.io"


def namespace_rules() -> list[dict[str, Any]]:
    """In the operator's namespace."""
    return [
        _rule("operator.openshift.io", ["secondaryschedulers"], [*_READ, "patch"]),
        _rule("operator.openshift.io", ["secondaryschedulers/status"], ["patch"]),
        _rule("", ["configmaps", "serviceaccounts", "services"], [*_READ, *_WRITE]),
        _rule("", ["secrets", "pods"], _READ),
        _rule("", ["events"], ["create"]),
        _rule("apps", ["deployments"], [*_READ, *_WRITE]),
        _rule(_RBAC, ["roles", "rolebindings"], [*_READ, *_WRITE]),
        _rule(_LEASES, ["leases"], ["create"]),
        _rule(_LEASES, ["leases"], ["get", "update"], ["openshift-secondary-scheduler-operator-lock"]),
        # Held to be granted to the scheduler (get, update, patch), watched for its reports, deleted at the end.
        _rule(_LEASES, ["leases"], [*_READ, "get", "update", "patch", "delete"], ["secondary-scheduler"]),
    ]


def cluster_rules(roles: Iterable[str]) -> list[dict[str, Any]]:
    """In the cluster: the bindings are named like the roles they bind."""
    names = sorted(roles)
    return [
        _rule(_RBAC, ["clusterrolebindings"], _READ),
        _rule(_RBAC, ["clusterrolebindings"], _WRITE, names),
        _rule(_RBAC, ["clusterroles"], ["bind"], names),
    ]


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()) -> dict[str, Any]:
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule
