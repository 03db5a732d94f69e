"""The RBAC objects of every local cluster."""

from __future__ import annotations

from typing import Any

from devcluster.api import AdminClient

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
READERS = "secondary-scheduler.io:readers"
NODE_AGENTS = "secondary-scheduler.io:node-agents"
_READ = ["get", "list", "watch"]


def apply_access(api: AdminClient) -> None:
    """Give the read-only user and the node agents their rights.

    The user has the system role `view` everywhere, and may read what `view` leaves out without need; Secrets
    stay closed. Agents are nodes to the Node authorizer. They may also watch all ConfigMaps and Secrets: a kubelet
    opens one watch per object instead, which would be no safer where every node is this machine.
    """
    objects = {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": _READ}
    _grant(api, NODE_AGENTS, NODE_AGENTS, [objects])
    rules = [
        {
            "apiGroups": [""],
            "resources": ["nodes", "namespaces", "persistentvolumes", "componentstatuses"],
            "verbs": _READ,
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
            "verbs": _READ,
        },
    ]
    _grant(api, READERS, f"{READERS}:cluster", rules)
    _bind(api, READERS, "view")


def _grant(api: AdminClient, group: str, role: str, rules: list[dict[str, Any]]) -> None:
    api.apply(f"{_RBAC}/clusterroles/{role}", _object("ClusterRole", role, rules=rules))
    _bind(api, group, role)


def _bind(api: AdminClient, group: str, role: str) -> None:
    name = f"{group}:{role.rpartition(':')[2]}"
    binding = _object(
        "ClusterRoleBinding",
        name,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        subjects=[{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    )
    api.apply(f"{_RBAC}/clusterrolebindings/{name}", binding)


def _object(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **fields}
