"""What the operator may do, verb by verb.

It holds no right of the scheduler itself: it may `bind` the static ClusterRoles of the install, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_READ = ["get", "list", "watch"]
_OWN = [*_READ, "create", "update", "patch", "delete"]


def cluster_rules(bindable_roles: Iterable[str]) -> list[dict[str, Any]]:
    """Rules without a namespace: the bindings of the scheduler's ServiceAccount to exactly these ClusterRoles."""
    return [
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["clusterroles"],
            "resourceNames": sorted(bindable_roles),
            "verbs": ["bind"],
        },
        # RBAC cannot restrict a creation by name; what can be bound is restricted above.
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"], "verbs": _OWN},
    ]


def namespace_rules() -> list[dict[str, Any]]:
    """Rules in the operator's own namespace."""
    return [
        _rule("operator.openshift.io", ["secondaryschedulers"], [*_READ, "patch"]),
        _rule("operator.openshift.io", ["secondaryschedulers/status"], ["get", "patch", "update"]),
        # OpenShift asks for this before it accepts an owner reference that blocks the owner's deletion.
        _rule("operator.openshift.io", ["secondaryschedulers/finalizers"], ["update"]),
        _rule("", ["configmaps"], _OWN),
        _rule("", ["serviceaccounts"], _OWN),
        _rule("", ["pods"], _READ),
        _rule("", ["events"], ["create", "patch"]),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
        _rule("apps", ["deployments"], _OWN),
        _rule("rbac.authorization.k8s.io", ["roles", "rolebindings"], _OWN),
        # Its own Lease, and those verbs that it passes on to the scheduler in a Role.
        _rule("coordination.k8s.io", ["leases"], _OWN),
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}
