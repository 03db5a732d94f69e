"""The objects around the scheduler's Deployment, as server-side apply wants them: only the fields we own."""

from typing import Any

from scheduler.catalog import BASE_CLUSTER_ROLE, cluster_role_name, static_cluster_roles
from scheduler.config import configuration_hash
from secondary_scheduler.controller.reconcile import names
from secondary_scheduler.controller.reconcile.configuration import EffectiveConfiguration
from secondary_scheduler.controller.reconcile.model import Json, Observed

_RBAC_GROUP = "rbac.authorization.k8s.io"


def service_account(observed: Observed) -> Json:
    """The identity the scheduler runs under."""
    return _object(observed, "ServiceAccount", names.OPERAND)


def lease_role(observed: Observed) -> Json:
    """The right to hold one Lease, the scheduler's own."""
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    rules = [
        {**leases, "resourceNames": [names.OPERAND], "verbs": ["get", "update", "patch"]},
        # RBAC cannot tie a create to a name: the name is not yet known to the authorizer.
        {**leases, "verbs": ["create"]},
    ]
    return _object(observed, "Role", names.OPERAND_ROLE, rules=rules)


def lease_role_binding(observed: Observed) -> Json:
    """Gives the Lease Role to the scheduler."""
    return _object(
        observed,
        "RoleBinding",
        names.OPERAND_ROLE,
        roleRef={"apiGroup": _RBAC_GROUP, "kind": "Role", "name": names.OPERAND_ROLE},
        subjects=[_subject(observed)],
    )


def cluster_role_bindings(observed: Observed, configuration: EffectiveConfiguration) -> list[Json]:
    """Bindings to the base ClusterRole and to that of every enabled plugin that has rules."""
    shipped = static_cluster_roles()
    roles = [BASE_CLUSTER_ROLE, *map(cluster_role_name, configuration.plugins)]
    return [cluster_role_binding(observed, role) for role in roles if role in shipped]


def cluster_role_binding(observed: Observed, role: str) -> Json:
    """One binding, named after the operand and the role's suffix."""
    name = f"{names.OPERAND}:{role.split(':', 1)[1]}"
    return _object(
        observed,
        "ClusterRoleBinding",
        name,
        roleRef={"apiGroup": _RBAC_GROUP, "kind": "ClusterRole", "name": role},
        subjects=[_subject(observed)],
    )


def active_config_map(observed: Observed, configuration: EffectiveConfiguration) -> Json:
    """The immutable copy that the Deployment mounts, so that an edit of the user's map cannot reach a running pod."""
    name = active_config_name(configuration)
    text = configuration.text
    live = observed.get("ConfigMap", name)
    kept = ((live or {}).get("data") or {}).get(names.CONFIG_KEY)
    # The hash ignores comments and layout, and an immutable copy cannot follow those: the copy keeps its own text.
    if kept is not None and _same_content(kept, configuration.hash):
        text = kept
    body = _object(observed, "ConfigMap", name, data={names.CONFIG_KEY: text}, immutable=True)
    body["metadata"]["annotations"] = {names.ANNOTATION_CONFIGURATION_HASH: configuration.hash}
    return body


def active_config_name(configuration: EffectiveConfiguration) -> str:
    """Name of the copy of a configuration: one name, one content."""
    return names.ACTIVE_CONFIG_PREFIX + configuration.hash


def metrics_service(observed: Observed) -> Json:
    """The Service that Prometheus scrapes, and that OpenShift's service-ca issues the serving certificate for."""
    body = _object(
        observed,
        "Service",
        names.METRICS_SERVICE,
        spec={
            "type": "ClusterIP",
            "selector": {names.LABEL_APP: names.OPERAND},
            "ports": [{"name": "https", "port": names.SECURE_PORT, "targetPort": names.SECURE_PORT, "protocol": "TCP"}],
        },
    )
    body["metadata"]["annotations"] = {
        "service.beta.openshift.io/serving-cert-secret-name": names.SERVING_CERT_SECRET,
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
    return new_object(observed, kind, name, names.owned_labels(observed.name), **content)


def _subject(observed: Observed) -> Json:
    return {"kind": "ServiceAccount", "name": names.OPERAND, "namespace": observed.namespace}


def _same_content(text: str, expected: str) -> bool:
    try:
        return configuration_hash(text) == expected
    except ValueError:
        return False
