"""RBAC objects: those of every local cluster, and how any of them is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devcluster.api import AdminClient, JsonObject

_GROUP = "rbac.authorization.k8s.io"
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
    apply_role(api, NODE_AGENTS, [objects])
    bind(api, f"{NODE_AGENTS}:node-agents", NODE_AGENTS, "Group", NODE_AGENTS)
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
    apply_role(api, f"{READERS}:cluster", rules)
    for role in (f"{READERS}:cluster", "view"):
        bind(api, f"{READERS}:{role.rpartition(':')[2]}", role, "Group", READERS)


def apply_role(
    api: AdminClient, name: str, rules: Sequence[JsonObject], labels: Mapping[str, str] | None = None
) -> None:
    """Apply a ClusterRole."""
    _apply(api, "ClusterRole", {"name": name, "labels": dict(labels or {})}, rules=list(rules))


def bind(api: AdminClient, name: str, role: str, kind: str, subject: str) -> None:
    """Apply a ClusterRoleBinding; `kind` of the subject is Group or User."""
    _apply(
        api,
        "ClusterRoleBinding",
        {"name": name},
        roleRef={"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        subjects=[{"apiGroup": _GROUP, "kind": kind, "name": subject}],
    )


def _apply(api: AdminClient, kind: str, metadata: JsonObject, **fields: Any) -> None:
    body = {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata, **fields}
    api.apply(f"/apis/{_GROUP}/v1/{kind.lower()}s/{metadata['name']}", body)
