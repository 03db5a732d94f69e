"""Objects every local cluster has from its start."""

from __future__ import annotations

from typing import Any

from secondary_scheduler.devcluster.api import ApiClient

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_READERS = "secondary-scheduler.io:readers"


def apply_access(api: ApiClient) -> None:
    """Rights of the read-only user: the system role `view` everywhere, and what `view` leaves out although reading it
    is harmless.

    Secrets stay closed, as with `view`.
    """
    role = f"{_READERS}:cluster"
    rules = [
        {
            "apiGroups": [""],
            "resources": ["nodes", "namespaces", "persistentvolumes", "componentstatuses"],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": [
                "apiextensions.k8s.io",
                "coordination.k8s.io",
                "events.k8s.io",
                "operator.openshift.io",
                "rbac.authorization.k8s.io",
                "scheduling.k8s.io",
                "scheduling.x-k8s.io",
                "storage.k8s.io",
                "topology.node.k8s.io",
            ],
            "resources": ["*"],
            "verbs": ["get", "list", "watch"],
        },
    ]
    api.apply(f"{_RBAC}/clusterroles/{role}", _object("ClusterRole", role, rules=rules))
    for bound in ("view", role):
        name = f"{_READERS}:{bound.rpartition(':')[2]}"
        binding = _object(
            "ClusterRoleBinding",
            name,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": bound},
            subjects=[{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": _READERS}],
        )
        api.apply(f"{_RBAC}/clusterrolebindings/{name}", binding)


def _object(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **fields}
