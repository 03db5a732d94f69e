"""The Operator Lifecycle Manager as processes of this machine, the catalog that it installs from, and what both need in
the cluster before they start.

The objects are those of its own installation, but for what a process outside the cluster has no use for: Deployments,
Services, and the package server, an aggregated API that no installation depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from devcluster import bootstrap
from devcluster.api import AdminClient
from devcluster.errors import ServiceError, SpecError
from devcluster.layout import CATALOG_USER, OLM_USER, Layout
from devcluster.probes import accepts
from devcluster.processes import ServiceProcess

HEALTH_PORT = 8080
"""Both operators listen on this port of every interface; no flag changes that."""
NAMESPACE = "olm"
CATALOG_SOURCE = "secondary-scheduler"
_OPERATORS_NAMESPACE = "operators"
_DEFINITIONS = Path(__file__).parents[1] / "olm_crds"
_CHECKOUT_CATALOG = Path(__file__).parents[2] / "deploy/olm/catalog"
_GROUP = "operators.coreos.com"
_KINDS = f"/apis/{_GROUP}"
_RBAC = "rbac.authorization.k8s.io"
_ROLE = "system:controller:operator-lifecycle-manager"


def opm(binary: Path, layout: Layout, ports: Mapping[str, int], catalog: Path) -> ServiceProcess:
    """Serves a file-based catalog over gRPC. It has no option for the interface: it listens on all."""
    scratch = layout.data("opm")
    scratch.mkdir(mode=0o700, exist_ok=True)
    return ServiceProcess(
        "opm",
        [
            str(binary),
            "serve",
            str(catalog),
            f"--port={ports['opm']}",
            "--pprof-addr=",
            # It would make a file below /dev.
            f"--termination-log={scratch / 'termination.log'}",
        ],
        ports=[ports["opm"]],
        # Where it unpacks the catalog; killed, it leaves that behind.
        env={"TMPDIR": str(scratch)},
        ready=accepts(ports["opm"]),
        ready_seconds=30,
        stop_seconds=2,
    )


def olm_operator(binary: Path, layout: Layout) -> ServiceProcess:
    """Installs what ClusterServiceVersions say, and keeps OperatorGroups."""
    return ServiceProcess(
        "olm-operator",
        [str(binary), f"--namespace={NAMESPACE}"],
        env={
            "KUBECONFIG": str(layout.config(f"{OLM_USER}.kubeconfig")),
            "OPERATOR_NAMESPACE": NAMESPACE,
            "OPERATOR_NAME": OLM_USER,
        },
        stop_seconds=2,
    )


def catalog_operator(binary: Path, layout: Layout) -> ServiceProcess:
    """Follows CatalogSources and Subscriptions, makes InstallPlans and carries them out."""
    return ServiceProcess(
        "catalog-operator",
        [str(binary), f"--namespace={NAMESPACE}", f"--kubeconfig={layout.config(f'{CATALOG_USER}.kubeconfig')}"],
        stop_seconds=2,
    )


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
    # OLM may do everything, since it passes on whatever a bundle asks for.
    verbs = ["watch", "list", "get", "create", "update", "patch", "delete", "deletecollection", "escalate", "bind"]
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}
    bootstrap.apply_role(api, _ROLE, [everything, {"nonResourceURLs": ["*"], "verbs": ["*"]}])
    for user in (OLM_USER, CATALOG_USER):
        bootstrap.bind(api, f"olm:{user}", _ROLE, "User", user)
    visible = ["clusterserviceversions", "catalogsources", "installplans", "subscriptions", "operatorgroups"]
    bootstrap.apply_role(
        api,
        "aggregate-olm-view",
        [{"apiGroups": [_GROUP], "resources": visible, "verbs": ["get", "list", "watch"]}],
        {f"{_RBAC}/aggregate-to-{role}": "true" for role in ("admin", "edit", "view")},
    )


def kinds_missing(api: AdminClient) -> str:
    """The kinds that the API server does not serve yet, as text; empty when it serves all."""
    definitions = {file.name.partition(".")[0] for file in _DEFINITIONS.glob("*.yaml")}
    served: set[str] = set()
    for version in ("v1", "v1alpha1", "v2"):
        try:
            resources = api.get(f"{_KINDS}/{version}")["resources"]
        except ServiceError:
            continue
        served |= {resource["name"] for resource in resources}
    return ", ".join(sorted(definitions - served))


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


def _object(version: str, kind: str, name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{_GROUP}/{version}", "kind": kind, "metadata": metadata, **fields}
