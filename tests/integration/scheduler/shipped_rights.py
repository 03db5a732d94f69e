"""A kubeconfig with the rights that the installation gives a scheduler, and no more."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from scheduler.catalog import BASE_CLUSTER_ROLE, cluster_role_name, static_cluster_roles
from scheduler.config import load_configuration
from scheduler.kube.client import AlreadyExists
from tests.integration.operator.support import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def kubeconfig_with_shipped_rights(
    api: Api, administrator: Path, configuration: Mapping[str, Any], directory: Path
) -> Path:
    """Bind the base role and the roles of the configuration's enabled plugins to a ServiceAccount of the namespace.

    Returns the file, `kubeconfig` in the directory: the administrator's, with a token of that account.
    """
    for name, rules in static_cluster_roles().items():
        body = {"metadata": {"name": name}, "rules": [rule.to_dict() for rule in rules]}
        with contextlib.suppress(AlreadyExists):
            api.call("POST", f"{RBAC}/clusterroles", body)
    enabled = load_configuration(yaml.safe_dump(configuration), source="test").profiles[0].enabled
    roles = {BASE_CLUSTER_ROLE, *map(cluster_role_name, enabled)} & set(static_cluster_roles())
    api.create("serviceaccounts", "scheduler")
    subject = {"kind": "ServiceAccount", "name": "scheduler", "namespace": api.namespace}
    for role in roles:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        binding = {"metadata": {"name": f"{api.namespace}:{role}"}, "roleRef": reference, "subjects": [subject]}
        api.call("POST", f"{RBAC}/clusterrolebindings", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = api.call("POST", api.path("serviceaccounts", "scheduler") + "/token", request)
    config = yaml.safe_load(administrator.read_text())
    for user in config["users"]:
        user["user"] = {"token": answer["status"]["token"]}
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
