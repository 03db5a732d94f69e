"""Field ownership under server-side apply: who owns a field, and taking over what we or kubectl wrote otherwise."""

from typing import Any

from devcluster.pulumi_stand_ins.kubernetes_provider.objects import metadata_of
from devcluster.pulumi_stand_ins.kubernetes_provider.paths import Path
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object

MANAGER_PREFIX = "pulumi-kubernetes"
"""Who creates objects; who updates them has eight hex digits behind it."""
# Managers (by prefix) and operations whose fields become ours, as in pulumi-kubernetes' fixCSAFieldManagers. An object
# that we created by POST is in our own name, yet under "Update", which the server takes for another manager.
_TAKEN_OVER = (
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("before-first-apply", "Update"),
    (MANAGER_PREFIX, "Update"),
    ("pulumi-resource-kubernetes", "Update"),
)


def take_over_fields(live: Object, manager: str) -> list[Object] | None:
    """The managedFields after `manager` has taken over; None if there is nothing to take."""
    entries: list[Object] = list(metadata_of(live).get("managedFields") or ())
    ours = [entry for entry in entries if _is_applied_by(entry, manager)]
    takeable = [entry for entry in entries if entry not in ours and _is_takeable(entry, manager)]
    if not takeable:
        return None
    fields: Object = {}
    for entry in [*ours, *takeable]:
        fields = _union(fields, entry.get("fieldsV1") or {})
    kept = [entry for entry in entries if entry not in ours and entry not in takeable]
    template = (ours or takeable)[0]
    merged = {**template, "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [merged, *kept]


def is_fresh(live: Object) -> bool:
    """Whether the object was never updated since it was made: our POST still owns fields."""
    return any(
        entry.get("manager") == MANAGER_PREFIX and entry.get("operation") == "Update" and not entry.get("subresource")
        for entry in metadata_of(live).get("managedFields") or ()
    )


def is_owned(live: Object, path: Path, *, by: str | None = None, except_by: str | None = None) -> bool:
    """Whether a manager owns the field: `by`, or any except `except_by`. False for paths through lists."""
    for entry in metadata_of(live).get("managedFields") or ():
        manager = entry.get("manager")
        if (by is None or manager == by) and manager != except_by and _has(entry.get("fieldsV1") or {}, path):
            return True
    return False


def _has(fields: Any, path: Path) -> bool:
    for step in path:
        if not isinstance(fields, dict) or f"f:{step}" not in fields:
            return False
        fields = fields[f"f:{step}"]
    return True


def _is_applied_by(entry: Object, manager: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")


def _is_takeable(entry: Object, manager: str) -> bool:
    if entry.get("subresource"):
        return False
    if entry.get("manager") == manager and entry.get("operation") == "Update":
        return True  # what we created by POST under a name that the user chose
    return any(
        str(entry.get("manager", "")).startswith(prefix) and entry.get("operation") == operation
        for prefix, operation in _TAKEN_OVER
    )


def _union(a: Object, b: Object) -> Object:
    merged = dict(a)
    for key, value in b.items():
        merged[key] = _union(merged[key], value) if key in merged else value
    return merged
