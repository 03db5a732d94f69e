"""The writing requests: create, dry run, apply, replace; each one attempt of what an operation needs."""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from devcluster.pulumi_stand_ins.kubernetes_provider.dynamic_client import DynamicClient, explain
from devcluster.pulumi_stand_ins.kubernetes_provider.objects import (
    ANNOTATION_FIELD_MANAGER,
    annotation,
    is_crd,
    metadata_of,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import ABSENT, ANY, Object, Path, at
from devcluster.pulumi_stand_ins.kubernetes_provider.waiting import Cancellation
from scheduler.kube.client import (
    APPLY_PATCH,
    JSON_PATCH,
    ApiError,
    Conflict,
    ConnectionFailed,
    ConnectionLost,
    Invalid,
    NotFound,
)

CREATE_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)
_CONFLICT_LINK = (
    "https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/managing-resources-with-server-side-apply/"
    "#handle-field-conflicts-on-existing-resources"
)
_LOST_ANSWER_ATTEMPTS = 5
# The server's clock, in whole seconds, against ours.
_CLOCK_SKEW = timedelta(seconds=5)

Warn = Callable[[str], None]


class FieldConflict(Conflict):
    """Other managers own fields that an update sets to another value."""


def field_manager(obj: Object, kept: str = "") -> str:
    """Who is to own the object's fields: the annotation, else the one in state, else a new name."""
    return annotation(obj, ANNOTATION_FIELD_MANAGER) or kept or f"{MANAGER_PREFIX}-{os.urandom(4).hex()}"


class ObjectWriter:
    """Writes to one API server; `cancellation` ends the pauses between attempts."""

    def __init__(self, api: DynamicClient, cancellation: Cancellation) -> None:
        self._api = api
        self._cancellation = cancellation

    def create(self, obj: Object, *, report_status: Callable[[str], None], warn: Warn) -> Object:
        """POST the object as field manager `pulumi-kubernetes` and return it as created.

        While the kind or the namespace does not exist yet, the request is repeated after 1, 2, 4, 8 and 16 seconds,
        each time reported to `report_status`. Raises KubeError (AlreadyExists for an existing object) or UserInterrupt.
        """
        return self._while_missing(lambda: self._post(obj, warn), report_status)

    def upsert(
        self, obj: Object, manager: str, *, force: bool, report_status: Callable[[str], None], warn: Warn
    ) -> Object:
        """Create or adopt the object by server-side apply; `force` takes fields from other managers.

        Otherwise as `create`.
        """
        return self._while_missing(lambda: self._apply(obj, manager, force=force, warn=warn), report_status)

    def preview_create(self, obj: Object, manager: str, *, warn: Warn) -> Object:
        """The object as the server would make it.

        By apply, not POST: in the preview of a replacement the old object may still be in the way. Where an existing
        one refuses because of immutable fields, another name is tried.
        """
        if not metadata_of(obj).get("name"):
            return self._api.request(
                "POST", self._api.path(obj), body=obj, query=_query(manager, dry_run=True), warn=warn
            )
        try:
            return self._apply(obj, manager, force=True, dry_run=True, warn=warn)
        except Invalid as error:
            if "immutable" not in error.message:
                raise
        name = f"{metadata_of(obj)['name'][:240]}-preview"
        preview_object = {**obj, "metadata": {**metadata_of(obj), "name": name}}
        previewed = self._apply(preview_object, manager, force=True, dry_run=True, warn=warn)
        return {**previewed, "metadata": {**metadata_of(previewed), "name": metadata_of(obj)["name"]}}

    def update(
        self, obj: Object, manager: str, *, force: bool, ignore: Iterable[Path], dry_run: bool, warn: Warn
    ) -> Object:
        """Bring the live object to `obj`: by server-side apply, or by PUT for a CustomResourceDefinition.

        `force` takes fields from other managers; paths in `ignore` stay as they are on the cluster. What kubectl or our
        own POST wrote is taken over first, but not in a dry run, which takes everything of an object that was never
        updated and nothing of any other. Raises KubeError: NotFound when the object is gone, Conflict when other
        managers own fields that `obj` sets to another value.
        """
        live = self._api.get(obj, str(metadata_of(obj)["name"]))
        if is_crd(obj):
            return self._replace(obj, live, manager, dry_run=dry_run, warn=warn)
        if dry_run:
            force = force or is_fresh(live)
        else:
            live = self._take_over(live, manager)
        applied = _without_ignored(obj, live, manager, ignore)
        try:
            return self._apply(applied, manager, force=force, dry_run=dry_run, warn=warn)
        except Conflict as error:
            message = (
                f"server-side apply field conflict detected, see {_CONFLICT_LINK} for troubleshooting help\n"
                f'The resource managed by field manager "{manager}" had an apply conflict: {explain(error)}'
            )
            raise FieldConflict(message, status=409, reason="Conflict", message=message) from error

    def _while_missing(self, attempt: Callable[[], Object], report_status: Callable[[str], None]) -> Object:
        for number, pause in enumerate(CREATE_PAUSES_SECONDS):
            try:
                return attempt()
            except NotFound as error:
                report_status(f"Retry #{number}; creation failed: {explain(error)}")
                self._api.forget_types()
                self._cancellation.pause(pause)
        return attempt()

    def _post(self, obj: Object, warn: Warn) -> Object:
        began = datetime.now(UTC)
        try:
            return self._api.request("POST", self._api.path(obj), body=obj, query=_query(MANAGER_PREFIX), warn=warn)
        except ConnectionLost:
            created = self._find_created(obj, began)
            if created is None:
                raise
            return created

    def _find_created(self, obj: Object, began: datetime) -> Object | None:
        """The object, if it was made although the answer got lost: created since then, by this manager."""
        name = metadata_of(obj).get("name")
        for _ in range(_LOST_ANSWER_ATTEMPTS if name else 0):
            try:
                live = self._api.get(obj, str(name))
            except ApiError:
                return None
            except ConnectionFailed:
                self._cancellation.pause(1.0)
                continue
            created = datetime.fromisoformat(str(metadata_of(live)["creationTimestamp"]))
            return live if is_fresh(live) and created >= began - _CLOCK_SKEW else None
        return None

    def _apply(self, obj: Object, manager: str, *, force: bool, warn: Warn, dry_run: bool = False) -> Object:
        query = {**_query(manager, dry_run=dry_run), "force": str(force).lower()}
        path = self._api.path(obj, str(metadata_of(obj)["name"]))
        return self._api.request("PATCH", path, body=obj, content_type=APPLY_PATCH, query=query, warn=warn)

    def _replace(self, obj: Object, live: Object, manager: str, *, dry_run: bool, warn: Warn) -> Object:
        live_metadata: Object = {
            key: metadata_of(live)[key] for key in ("finalizers", "ownerReferences") if key in metadata_of(live)
        }
        metadata: Object = {
            **live_metadata,
            **metadata_of(obj),
            "resourceVersion": metadata_of(live)["resourceVersion"],
        }
        path = self._api.path(obj, str(metadata["name"]))
        body = {**obj, "metadata": metadata}
        return self._api.request("PUT", path, body=body, query=_query(manager, dry_run=dry_run), warn=warn)

    def _take_over(self, live: Object, manager: str) -> Object:
        entries = take_over_fields(live, manager)
        if entries is None:
            return live
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata_of(live)["resourceVersion"]},
        ]
        path = self._api.path(live, str(metadata_of(live)["name"]))
        return self._api.request("PATCH", path, body=patch, content_type=JSON_PATCH)


def _query(manager: str, *, dry_run: bool = False) -> dict[str, str]:
    query = {"fieldManager": manager, "fieldValidation": "Warn"}
    return {**query, "dryRun": "All"} if dry_run else query


def _without_ignored(obj: Object, live: Object, manager: str, ignore: Iterable[Path]) -> Object:
    """`obj` with ignored fields left to their owner on the cluster, or else at their live value."""
    for path in ignore:
        if not path or any(isinstance(step, int) or step == ANY for step in path):
            continue
        if is_owned(live, path, except_by=manager) and not is_owned(live, path, by=manager):
            obj = _put(obj, path, ABSENT)
        else:
            value = at(live, path)
            obj = obj if value is ABSENT else _put(obj, path, value)
    return obj


def _put(obj: Object, path: Sequence[str | int], value: Any) -> Object:
    first, rest = str(path[0]), path[1:]
    if not rest:
        without = {key: item for key, item in obj.items() if key != first}
        return without if value is ABSENT else {**without, first: value}
    inner = obj.get(first)
    if not isinstance(inner, dict):
        if value is ABSENT:
            return obj
        inner = {}
    return {**obj, first: _put(inner, rest, value)}


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
    others = [entry for entry in entries if entry not in ours and entry not in takeable]
    template = (ours or takeable)[0]
    merged = {**template, "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [merged, *others]


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
