"""What somebody changed by hand: objects as the stack's state has them, compared with the live ones.

The engine's own refresh does not show all of it: pulumi-kubernetes cuts every list to the length that it has in the
program, so a rule, a subject or a variable that was appended is never seen, and nobody says who changed a field before
an update fails. Everything here is pure.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.kube.client import KubeError, NotFound, SyncConnection, api_path
from scheduler.kube.primitives import QuantityError, quantity_milli_value
from secondary_scheduler.cli.fleet.events import one_line
from secondary_scheduler.cli.fleet.results import Drift, DriftKind

Json = Mapping[str, Any]
Path = tuple[str | int, ...]

_RBAC = "rbac.authorization.k8s.io"
_FORCED = frozenset(
    {
        ("", "Namespace"),
        ("", "ServiceAccount"),
        (_RBAC, "ClusterRole"),
        (_RBAC, "ClusterRoleBinding"),
        (_RBAC, "Role"),
        (_RBAC, "RoleBinding"),
        ("scheduling.k8s.io", "PriorityClass"),
    }
)
"""What the program applies with force; `components.drift` has the same list, which a test compares."""
_OURS = "pulumi-kubernetes"
_TAKEN_OVER = ("kubectl", "before-first-apply")
"""Prefixes of managers that give way to an update of pulumi-kubernetes, but not to its preview."""
_SECRET_MARK = "4dabf18193072939515e22adb298388d"  # noqa: S105 (the marker of a secret value in state)
_NOT_COMPARED = frozenset({"apiVersion", "kind", "status", "stringData"})
_NOBODY = "an unknown manager"
_MAX_ENTRY = 160


@dataclass(frozen=True)
class StackObject:
    """An object of a stack.

    Attributes:
        inputs: what the program gave, as the state has it.
        manager: the field manager under which the stack updates it; empty if it never did.
        resource: its plural name, with the group if it has one, as kubectl takes it.
    """

    inputs: Json
    manager: str
    resource: str

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return str(self.inputs["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """`metadata.namespace`; empty for cluster-scoped objects."""
        return str(self.inputs["metadata"].get("namespace") or "")

    @property
    def title(self) -> str:
        """Kind and name, with the namespace if it has one."""
        return f"{self.inputs['kind']} {'/'.join(part for part in (self.namespace, self.name) if part)}"


def drift_of(stack: str, owned: StackObject, live: Json | None) -> list[Drift]:
    """Everything about an object that is not as the stack left it; `live` is None if it is gone.

    Fields that the program does not set do not count, nor does what it keeps secret.
    """
    refresh = f"pulumi up --stack {shlex.quote(stack)} --refresh"
    if live is None:
        return [Drift(owned.title, "", DriftKind.DELETED, "", refresh)]
    differences = list(_object_differences(owned.inputs, live))
    if not differences:
        return []
    managers = [_manager(live, difference, owned.manager) for difference in differences]
    repair = _repair(refresh, owned, live, differences, managers)
    return [
        Drift(owned.title, _field(owned, difference, live), difference.change, manager, repair)
        for difference, manager in zip(differences, managers, strict=True)
    ]


@dataclass(frozen=True)
class _Difference:
    """Where the live object differs: `path` has the live indices of lists; `expected` is None for what was added."""

    path: Path
    change: DriftKind
    expected: Any = None


def _object_differences(inputs: Json, live: Json) -> Iterator[_Difference]:
    for key, expected in inputs.items():
        if key.startswith("__") or key in _NOT_COMPARED or (key == "data" and inputs.get("kind") == "Secret"):
            continue
        if key == "metadata":
            labelling = {name: expected[name] for name in ("labels", "annotations") if expected.get(name)}
            yield from _mapping_differences(labelling, live.get("metadata") or {}, ("metadata",))
        else:
            yield from _value_differences(expected, live.get(key), (key,))


def _value_differences(expected: Any, actual: Any, path: Path) -> Iterator[_Difference]:
    if _is_secret(expected):
        return
    if actual is None or (actual == "" and expected):
        if not _is_empty(expected):
            yield _Difference(path, DriftKind.REMOVED, expected)
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        yield from _mapping_differences(expected, actual, path)
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from _list_differences(expected, actual, path)
    elif not _same(expected, actual):
        yield _Difference(path, DriftKind.CHANGED, expected)


def _mapping_differences(expected: Json, actual: Json, path: Path) -> Iterator[_Difference]:
    for key, value in expected.items():
        yield from _value_differences(value, actual.get(key), (*path, key))


def _list_differences(expected: Sequence[Any], actual: Sequence[Any], path: Path) -> Iterator[_Difference]:
    """Entries are matched by name, else by content, else by place; what is left over was added or removed."""
    places = _matched(expected, actual, path)
    for index, value in enumerate(expected):
        if index in places:
            yield from _value_differences(value, actual[places[index]], (*path, places[index]))
        elif not _is_secret(value):
            yield _Difference((*path, len(actual)), DriftKind.REMOVED, value)
    matched = set(places.values())
    if not any(_is_secret(value) for value in expected):
        yield from (
            _Difference((*path, index), DriftKind.ADDED) for index in range(len(actual)) if index not in matched
        )


def _matched(expected: Sequence[Any], actual: Sequence[Any], path: Path) -> dict[int, int]:
    """The place in `actual` of each entry of `expected` that has one."""
    places: dict[int, int] = {}
    free = list(range(len(actual)))

    def match(index: int, place: int) -> None:
        places[index] = place
        free.remove(place)

    for index, value in enumerate(expected):
        name = _name_of(value)
        alike = (
            place
            for place in free
            if (name and _name_of(actual[place]) == name)
            or (not name and not any(_value_differences(value, actual[place], path)))
        )
        if (place := next(alike, None)) is not None:
            match(index, place)
    for index, value in enumerate(expected):
        if index not in places and index in free and not _name_of(value):
            match(index, index)
    return places


def _name_of(entry: Any) -> str:
    # Not for subjects: two ServiceAccounts of one name in two namespaces are two.
    named = isinstance(entry, Mapping) and isinstance(entry.get("name"), str) and "kind" not in entry
    return str(entry["name"]) if named else ""


def _is_secret(value: Any) -> bool:
    return isinstance(value, Mapping) and _SECRET_MARK in value


def _is_empty(value: Any) -> bool:
    """Whether the API server leaves the value out."""
    return value is None or value is False or value in ("", 0) or (isinstance(value, Mapping | list) and not value)


def _same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if expected == actual:
        return True
    try:
        return quantity_milli_value(expected) == quantity_milli_value(actual)
    except (QuantityError, TypeError, ValueError, AttributeError):
        return False


def _manager(live: Json, difference: _Difference, ours: str) -> str:
    """Who owns the field now: of several the one that wrote last, ours only if nobody else does."""
    # What was taken off has no owner; who owns what it stood in comes closest.
    path = difference.path[:-1] if difference.change is DriftKind.REMOVED else difference.path
    owners = [
        entry
        for entry in (live.get("metadata") or {}).get("managedFields") or ()
        if entry.get("subresource") != "status" and _owns(entry.get("fieldsV1") or {}, path, live)
    ]
    foreign = [entry for entry in owners if entry.get("manager") not in (ours, _OURS)]
    latest = max(foreign, key=lambda entry: str(entry.get("time", "")), default=None)
    if latest is None:
        return _NOBODY
    subresource = f" ({latest['subresource']})" if latest.get("subresource") else ""
    return f"{one_line(str(latest.get('manager', '')), _MAX_ENTRY)}{subresource}"


def _owns(fields: Any, path: Path, value: Any) -> bool:
    for step in path:
        if not isinstance(fields, Mapping) or not fields:
            break  # what is owned as a whole
        value = _at(value, step)
        inner = _field_entry(fields, step, value)
        if inner is None:
            return False
        fields = inner
    return True


def _at(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (KeyError, IndexError, TypeError):
        return None


def _field_entry(fields: Json, step: str | int, value: Any) -> Any:
    if isinstance(step, str):
        return fields.get(f"f:{step}")
    for key, inner in fields.items():
        kind, _, text = key.partition(":")
        if kind == "k" and isinstance(value, Mapping):
            keys: Json = json.loads(text)
            if all(value.get(name) == expected for name, expected in keys.items()):
                return inner
        elif kind == "v" and json.loads(text) == value:
            return inner
    return None


def _repair(
    refresh: str, owned: StackObject, live: Json, differences: Sequence[_Difference], managers: Sequence[str]
) -> str:
    """The command: an update where an update does it, else a patch to what the program says."""
    group = str(owned.inputs["apiVersion"]).rpartition("/")[0]
    if not any(difference.change is DriftKind.ADDED for difference in differences):
        if (group, owned.inputs["kind"]) in _FORCED:
            return refresh
        if all(manager.startswith(_TAKEN_OVER) and "(" not in manager for manager in managers):
            return f"{refresh} --yes --skip-preview"
    return _patch(owned, live, differences)


def _patch(owned: StackObject, live: Json, differences: Sequence[_Difference]) -> str:
    operations: list[Json] = []
    for difference in differences:
        if difference.change is DriftKind.CHANGED:
            operations.append({"op": "replace", "path": _pointer(difference.path), "value": difference.expected})
        elif difference.change is DriftKind.REMOVED:
            last = "-" if isinstance(difference.path[-1], int) else difference.path[-1]
            pointer = _pointer((*difference.path[:-1], last))
            operations.append({"op": "add", "path": pointer, "value": difference.expected})
    # The deepest first and each list from its end, so that the other places stay what they are; tested, so that a
    # second run takes off nothing that moved there.
    added = [difference.path for difference in differences if difference.change is DriftKind.ADDED]
    for path in sorted(added, key=lambda path: (len(path), path[-1]), reverse=True):
        entry = _value(live, path)
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            operations.append({"op": "test", "path": _pointer((*path, "name")), "value": entry["name"]})
        elif str(owned.inputs["apiVersion"]).startswith(_RBAC):
            operations.append({"op": "test", "path": _pointer(path), "value": entry})
        operations.append({"op": "remove", "path": _pointer(path)})
    namespace = ["-n", owned.namespace] if owned.namespace else []
    patch = json.dumps(operations, separators=(",", ":"))
    return shlex.join(["kubectl", *namespace, "patch", owned.resource, owned.name, "--type", "json", "-p", patch])


def _value(live: Any, path: Path) -> Any:
    for step in path:
        live = _at(live, step)
    return live


def _pointer(path: Path) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _field(owned: StackObject, difference: _Difference, live: Json) -> str:
    text, value = "", live
    for step in difference.path:
        value = _at(value, step)
        if isinstance(step, int):
            entry = difference.expected if value is None else value
            text += f"[{_name_of(entry) or step}]"
        else:
            text += f".{step}" if text else step
    if difference.change is DriftKind.ADDED and str(owned.inputs["apiVersion"]).startswith(_RBAC):
        text += f" {one_line(json.dumps(value), _MAX_ENTRY)}"
    return text


_TYPE = "kubernetes:"
_OBJECT = {"apiVersion", "kind", "metadata"}
_MANAGER = "__fieldManager"


class DriftCheck:
    """Compares the objects of a stack with its state."""

    def __init__(self, stack: str, cluster: SyncConnection) -> None:
        self._stack = stack
        self._cluster = cluster
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}

    def run(self, state: Sequence[Mapping[str, Any]]) -> tuple[list[Drift], list[str]]:
        """What drifted, and a line for each object that could not be compared.

        `state` are the resources of `pulumi stack export`.
        """
        drifts: list[Drift] = []
        problems: list[str] = []
        for inputs, manager in objects_of(state):
            try:
                drifts += self._drift(inputs, manager)
            except KubeError as error:
                name = inputs["metadata"].get("name")
                problems.append(f"{inputs['kind']} {name} could not be compared: {one_line(str(error))}")
        return drifts, problems

    def _drift(self, inputs: Mapping[str, Any], manager: str) -> list[Drift]:
        api_version = str(inputs["apiVersion"])
        kind = self._served(api_version).get(str(inputs["kind"]))
        group = api_version.rpartition("/")[0]
        plural, namespaced = kind or (str(inputs["kind"]).lower(), False)
        owned = StackObject(inputs, manager, f"{plural}.{group}" if group else plural)
        if kind is None:
            return drift_of(self._stack, owned, None)
        path = api_path(api_version, plural, namespace=owned.namespace if namespaced else None, name=owned.name)
        try:
            live = json.loads(self._cluster.get(path))
        except NotFound:
            live = None
        return drift_of(self._stack, owned, live)

    def _served(self, api_version: str) -> dict[str, tuple[str, bool]]:
        """Plural and whether it is namespaced, by kind; empty for an API that is not served."""
        if api_version not in self._kinds:
            prefix = "/apis" if "/" in api_version else "/api"
            try:
                listed = json.loads(self._cluster.get(f"{prefix}/{api_version}"))["resources"]
            except NotFound:
                listed = []
            self._kinds[api_version] = {
                resource["kind"]: (resource["name"], bool(resource["namespaced"]))
                for resource in listed
                if "/" not in resource["name"]
            }
        return self._kinds[api_version]


def objects_of(state: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Inputs and field manager of each object that the stack owns now."""
    for resource in state:
        inputs = resource.get("inputs") or {}
        is_object = str(resource.get("type", "")).startswith(_TYPE) and set(inputs) >= _OBJECT
        if is_object and not resource.get("delete") and not resource.get("external"):
            yield inputs, str((resource.get("outputs") or {}).get(_MANAGER) or "")
