"""What the Operator Lifecycle Manager needs in a cluster before its processes start, and their progress.

The objects are those of its own installation, but for what a process outside the cluster has no use for: Deployments,
Services, and the package server, an aggregated API that no installation depends on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from devcluster.api import AdminClient
from devcluster.errors import ServiceError, SpecError

NAMESPACE = "olm"
CATALOG_SOURCE = "secondary-scheduler"
OLM_USER = "olm-operator"
CATALOG_USER = "catalog-operator"
_OPERATORS_NAMESPACE = "operators"
_DEFINITIONS = Path(__file__).parent / "olm_crds"
_CHECKOUT_CATALOG = Path(__file__).parents[1] / "deploy/olm/catalog"
_GROUP = "operators.coreos.com"
_KINDS = f"/apis/{_GROUP}"
_RBAC = "rbac.authorization.k8s.io"
_ROLE = "system:controller:operator-lifecycle-manager"


def catalog_directory(chosen: Path | None) -> Path:
    """The file-based catalog to serve: the chosen directory, else this checkout's. Raises SpecError."""
    directory = (chosen or _CHECKOUT_CATALOG).resolve()
    if not directory.is_dir():
        raise SpecError(
            f"{directory} is not a directory: pass one with a file-based catalog to --olm-catalog"
            if chosen
            else "this project's catalog exists only in a checkout: pass your own with --olm-catalog"
        )
    return directory


def apply_definitions(api: AdminClient) -> None:
    """The CRDs, and the rights of OLM's processes and of users."""
    for file in sorted(_DEFINITIONS.glob("*.yaml")):
        definition = yaml.load(file.read_bytes(), yaml.CSafeLoader)
        name = definition["metadata"]["name"]
        api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", definition)
    for plural, name, body in _access():
        api.apply(f"/apis/{_RBAC}/v1/{plural}/{name}", body)


def kinds_missing(api: AdminClient) -> str:
    """The kinds that the API server does not serve yet, as text; empty when it serves all."""
    wanted = {file.name.partition(".")[0] for file in _DEFINITIONS.glob("*.yaml")}
    served: set[str] = set()
    for version in ("v1", "v1alpha1", "v2"):
        try:
            resources = api.get(f"{_KINDS}/{version}")["resources"]
        except ServiceError:
            continue
        served |= {resource["name"] for resource in resources}
    return ", ".join(sorted(wanted - served))


def apply_objects(api: AdminClient, catalog_address: str) -> None:
    """OLM's namespaces with the group of operators that watch everything, and the source of the served catalog."""
    for name in (NAMESPACE, _OPERATORS_NAMESPACE):
        api.apply(f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    api.apply(f"{_KINDS}/v1/olmconfigs/cluster", _object("v1", "OLMConfig", "cluster"))
    group = _object("v1", "OperatorGroup", "global-operators", _OPERATORS_NAMESPACE, spec={})
    api.apply(f"{_KINDS}/v1/namespaces/{_OPERATORS_NAMESPACE}/operatorgroups/global-operators", group)
    spec = {
        "sourceType": "grpc",
        "address": catalog_address,
        "displayName": "Secondary scheduler",
        "publisher": "Local",
    }
    source = _object("v1alpha1", "CatalogSource", CATALOG_SOURCE, NAMESPACE, spec=spec)
    api.apply(_source_path(), source)


def not_ready(api: AdminClient) -> str:
    """What OLM's processes have not done yet, as text: each has one object whose status only it writes."""
    source = api.get(_source_path()).get("status", {})
    if source.get("connectionState", {}).get("lastObservedState") != "READY":
        return "the catalog's connection"
    group = api.get(f"{_KINDS}/v1/namespaces/{_OPERATORS_NAMESPACE}/operatorgroups/global-operators")
    return "" if group.get("status", {}).get("lastUpdated") else "the first OperatorGroup's status"


def _source_path() -> str:
    return f"{_KINDS}/v1alpha1/namespaces/{NAMESPACE}/catalogsources/{CATALOG_SOURCE}"


def _access() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """OLM may do everything, since it passes on whatever a bundle asks for."""
    everything = ["watch", "list", "get", "create", "update", "patch", "delete", "deletecollection", "escalate", "bind"]
    yield _cluster_role(
        _ROLE,
        [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": everything},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
    )
    for user in (OLM_USER, CATALOG_USER):
        binding = {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"olm:{user}"},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _ROLE},
            "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
        }
        yield "clusterrolebindings", f"olm:{user}", binding
    shown = ["clusterserviceversions", "catalogsources", "installplans", "subscriptions", "operatorgroups"]
    yield _cluster_role(
        "aggregate-olm-view",
        [{"apiGroups": [_GROUP], "resources": shown, "verbs": ["get", "list", "watch"]}],
        {f"{_RBAC}/aggregate-to-{role}": "true" for role in ("admin", "edit", "view")},
    )


def _cluster_role(
    name: str, rules: list[dict[str, Any]], labels: dict[str, str] | None = None
) -> tuple[str, str, dict[str, Any]]:
    metadata = {"name": name, "labels": labels or {}}
    body = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    return "clusterroles", name, body


def _object(version: str, kind: str, name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{_GROUP}/{version}", "kind": kind, "metadata": metadata, **fields}
