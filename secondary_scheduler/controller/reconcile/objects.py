"""The objects around the scheduler's Deployment, as server-side apply wants them: only the fields we own."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from scheduler.catalog import BASE_CLUSTER_ROLE, GO_CLUSTER_ROLES, cluster_role_name, static_cluster_roles
from scheduler.config import flavour_of
from secondary_scheduler.controller.reconcile import names
from secondary_scheduler.controller.reconcile.configuration import content_hash
from secondary_scheduler.controller.reconcile.model import Json, Observed

_RBAC_GROUP = "rbac.authorization.k8s.io"


def service_account(observed: Observed) -> Json:
    """The identity the scheduler runs under."""
    return _object(observed, "ServiceAccount", observed.names.operand)


def lease_role(observed: Observed, *, candidate: bool) -> Json:
    """The right to hold one Lease, the scheduler's own; beside it the candidate's, as long as there is one."""
    held = [observed.names.operand, *([observed.names.candidate] if candidate else [])]
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    rules = [
        {**leases, "resourceNames": held, "verbs": ["get", "update", "patch"]},
        # RBAC cannot tie a create to a name: the name is not yet known to the authorizer.
        {**leases, "verbs": ["create"]},
    ]
    return _object(observed, "Role", observed.names.lease_role, rules=rules)


def lease_role_binding(observed: Observed) -> Json:
    """Gives the Lease Role to the scheduler."""
    return _object(
        observed,
        "RoleBinding",
        observed.names.lease_role,
        roleRef={"apiGroup": _RBAC_GROUP, "kind": "Role", "name": observed.names.lease_role},
        subjects=[_subject(observed)],
    )


def cluster_role_bindings(observed: Observed, run: Iterable[tuple[Collection[str], str]]) -> list[Json]:
    """Bindings to the base ClusterRole and to those of plugins that have rules, for all of the pairs (enabled plugins,
    image) that are run; an image that is not ours gets those of the cluster's own scheduler, too."""
    shipped = static_cluster_roles()
    wanted = [BASE_CLUSTER_ROLE]
    for plugins, image in run:
        wanted += [role for role in map(cluster_role_name, plugins) if role in shipped]
        if image and not flavour_of(image).is_ours:
            wanted += GO_CLUSTER_ROLES
    return [cluster_role_binding(observed, role) for role in dict.fromkeys(wanted)]


def cluster_role_binding(observed: Observed, role: str) -> Json:
    """One binding, named after the instance and the role's suffix."""
    return _object(
        observed,
        "ClusterRoleBinding",
        observed.names.cluster_role_binding(role),
        roleRef={"apiGroup": _RBAC_GROUP, "kind": "ClusterRole", "name": role},
        subjects=[_subject(observed)],
    )


def active_config_map(
    observed: Observed, configuration: str, text: str | None, notes: Mapping[str, str]
) -> Json | None:
    """The immutable copy that the Deployment mounts, so that an edit of the user's map cannot reach a running pod.

    `text` is None where only the copy itself knows it; without one there is nothing to make. `notes` are annotations.
    """
    name = observed.names.active_config_map(configuration)
    live = observed.get("ConfigMap", name)
    kept = ((live or {}).get("data") or {}).get(names.CONFIG_KEY)
    # The hash ignores comments and layout, and an immutable copy cannot follow those: the copy keeps its own text.
    if kept is not None and _same_content(kept, configuration):
        text = kept
    if text is None:
        return None
    body = _object(observed, "ConfigMap", name, data={names.CONFIG_KEY: text}, immutable=True)
    body["metadata"]["annotations"] = {names.ANNOTATION_CONFIGURATION_HASH: configuration, **notes}
    return body


def metrics_service(observed: Observed) -> Json:
    """The Service that Prometheus scrapes, and that OpenShift's service-ca issues the serving certificate for."""
    body = _object(
        observed,
        "Service",
        observed.names.metrics_service,
        spec={
            "type": "ClusterIP",
            "selector": {names.LABEL_APP: observed.names.operand},
            "ports": [{"name": "https", "port": names.SECURE_PORT, "targetPort": names.SECURE_PORT, "protocol": "TCP"}],
        },
    )
    body["metadata"]["annotations"] = {
        "service.beta.openshift.io/serving-cert-secret-name": observed.names.serving_cert_secret,
    }
    return body


def new_object(observed: Observed, kind: str, name: str, labels: dict[str, str], **content: Any) -> Json:
    """An object of the instance: owned by it where Kubernetes allows that, marked by labels where not."""
    resource = names.RESOURCES[kind]
    metadata: Json = {"name": name, "labels": dict(labels)}
    if resource.namespaced:
        metadata["namespace"] = observed.namespace
        metadata["ownerReferences"] = [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": observed.name,
                "uid": observed.resource["metadata"]["uid"],
                "controller": True,
            }
        ]
    else:
        metadata["labels"][names.LABEL_NAMESPACE] = observed.namespace
    return {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, **content}


def _object(observed: Observed, kind: str, name: str, **content: Any) -> Json:
    return new_object(observed, kind, name, observed.names.labels, **content)


def _subject(observed: Observed) -> Json:
    return {"kind": "ServiceAccount", "name": observed.names.operand, "namespace": observed.namespace}


def _same_content(text: str, expected: str) -> bool:
    return content_hash(text) == expected
