"""The objects around the scheduler's Deployment, as server-side apply wants them: only the fields we own."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from scheduler import operand
from scheduler.config import Flavour
from secondary_scheduler.operator.reconcile import names
from secondary_scheduler.operator.reconcile.configuration import content_hash
from secondary_scheduler.operator.reconcile.model import (
    Action,
    Apply,
    Delete,
    Json,
    ObjectKey,
    Observed,
    digest,
    fingerprint,
)


def service_account(observed: Observed) -> Json:
    """The identity the scheduler runs under."""
    return _object(observed, "ServiceAccount", observed.names.operand)


def lease_role(observed: Observed, *, canary_runs: bool) -> Json:
    """The right to hold the scheduler's Lease, and the canary's as long as there is a canary."""
    lease_names = [observed.names.operand, *([observed.names.canary] if canary_runs else [])]
    return _object(observed, "Role", observed.names.lease_role, rules=operand.lease_rules(*lease_names))


def lease_role_binding(observed: Observed) -> Json:
    """Gives the Lease Role to the scheduler."""
    return _object(
        observed,
        "RoleBinding",
        observed.names.lease_role,
        roleRef=operand.role_ref(observed.names.lease_role),
        subjects=[_subject(observed)],
    )


def cluster_role_bindings(observed: Observed, run: Iterable[tuple[Collection[str], Flavour | None]]) -> list[Json]:
    """Bindings for all of the pairs (enabled plugins, image or None) that are run."""
    return [cluster_role_binding(observed, role) for role in operand.cluster_roles_for(run)]


def cluster_role_binding(observed: Observed, role: str) -> Json:
    """One binding, named after the instance and the role's suffix."""
    return _object(
        observed,
        "ClusterRoleBinding",
        observed.names.cluster_role_binding(role),
        roleRef=operand.cluster_role_ref(role),
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
    stored_text = ((live or {}).get("data") or {}).get(names.CONFIG_KEY)
    # The hash ignores comments and layout, and an immutable copy cannot follow those: the copy keeps its own text.
    if stored_text is not None and _same_content(stored_text, configuration):
        text = stored_text
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
        spec=operand.metrics_service_spec(observed.names.operand),
    )
    body["metadata"]["annotations"] = operand.metrics_service_annotations(observed.names.operand)
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
    return operand.account(observed.names.operand, observed.namespace)


def _same_content(text: str, expected: str) -> bool:
    return content_hash(text) == expected


def writes(observed: Observed, wanted: Iterable[tuple[Json, tuple[ObjectKey, ...]]]) -> Iterator[Action]:
    """What to do for each wanted object, given those that it requires; nothing where it is as it should be."""
    for body, requires in wanted:
        key = ObjectKey.of(body)
        live = observed.objects.get(key)
        if live is not None and _must_be_replaced(body, live):
            yield Delete(key, str(live["metadata"]["uid"]), "its immutable content differs from the desired content")
            yield Apply(body, requires)
        elif _needs_apply(observed, key, body, live):
            yield Apply(body, requires)


def _needs_apply(observed: Observed, key: ObjectKey, body: Json, live: Json | None) -> bool:
    record = observed.applied.get(key)
    if record is None or record.desired != digest(body):
        return True
    if live is None:
        return key.kind not in observed.unreadable
    return record.live != fingerprint(live)


def _must_be_replaced(body: Json, live: Json) -> bool:
    if body.get("immutable") and live.get("immutable"):
        return bool(body["data"] != live.get("data"))
    return "roleRef" in body and bool(body["roleRef"] != live.get("roleRef"))
