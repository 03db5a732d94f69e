"""Kubernetes objects in files: single documents, multi-document YAML, Lists, JSON, and any mix of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from scheduler.config import path_text
from scheduler.framework import PodInfo
from scheduler.kube.model import POD_GROUP_LABEL
from secondary_scheduler.errors import InputError
from secondary_scheduler.files import MAX_OBJECTS, read_bytes
from secondary_scheduler.simulation.report import InputReport, ObjectPlace, with_field

_BOM = b"\xef\xbb\xbf"
_TRAILING = "trailing characters"
_RECORDING = re.compile(rb'\s*\{\s*"apiVersion":\s*"[^"]*",\s*"kind":\s*"ClusterRecording"')
_TOO_LARGE = re.compile(rb"[:,\[]\s*-?[0-9.]+[eE]\+?[0-9]{3,}")
"""A number with an exponent of 100 and more, where JSON has a value."""
_SPACE = re.compile(r"\s*")
_UNUSABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, TypeError, ValueError)


class Entry(NamedTuple):
    """One object, not decoded yet: `data` is JSON. `problem` is what keeps it from being used, if that is known."""

    place: ObjectPlace
    api_version: str
    kind: str
    data: bytes | Raw
    problem: str = ""


class _FileDocument(NamedTuple):
    """A document as JSON; None for one that cannot be written as such.

    Attributes:
        item_lines: first lines of the elements of a List.
        refused: what is wrong with the whole document (None), or with an element of a List, that JSON cannot say.
    """

    place: ObjectPlace
    data: bytes | None
    item_lines: Sequence[int] = ()
    refused: Mapping[int | None, str] = MappingProxyType({})


class _TypeMeta(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None


class _Items(Struct):
    items: list[Raw] | None = None


_type = msgspec.json.Decoder(_TypeMeta)
_items = msgspec.json.Decoder(_Items)


def read_entries(file: str, report: InputReport) -> Iterator[Entry]:
    """Yield the objects of a file (`-` is standard input), Lists taken apart. What is no object is reported.

    Raises:
        InputError: the file cannot be read, or is neither YAML nor JSON.
    """
    for document in _documents(file, read_objects(file)):
        yield from _entries(document, report)


def read_objects(file: str) -> bytes:
    """Return the content of a file of objects or load.

    Raises:
        InputError: it cannot be read, or is larger than any snapshot.
    """
    return read_bytes(file, limit=MAX_OBJECTS).removeprefix(_BOM)


def position(data: bytes, offset: int) -> str:
    """Return `line:column` (from 1) of a byte."""
    line = data.count(b"\n", 0, offset) + 1
    column = offset - data.rfind(b"\n", 0, offset)
    return f"{line}:{column}"


def _documents(file: str, data: bytes) -> Iterator[_FileDocument]:
    if _RECORDING.match(data):
        raise InputError(f"{file}: is a recording, not a snapshot; plan takes it with --recording")
    if data.lstrip()[:1] in (b"{", b"["):
        if _TOO_LARGE.search(data):
            yield from _with_too_large(file, data)
            return
        try:
            # Nothing is decoded yet: this only finds out whether it is JSON as a whole.
            msgspec.json.decode(data, type=Raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if _TRAILING in str(error) and (values := _json_values(data)):
                for number, value in enumerate(values, 1):
                    yield _FileDocument(ObjectPlace(file, number), _encoded(value))
                return
            if file.endswith(".json"):
                raise InputError(_json_problem(file, data, error)) from error
        else:
            yield _FileDocument(ObjectPlace(file, 1), data)
            return
    # Here, since a JSON file needs no YAML parser to be imported.
    from secondary_scheduler import yamltext

    for number, document in enumerate(yamltext.documents(data, file, keep_not_finite=True), 1):
        if document.content is not None:
            place = ObjectPlace(file, number, document.line)
            refused = _not_finite(document.content) if document.has_not_finite else {}
            yield _FileDocument(place, _encoded(document.content), document.item_lines, refused)


def _with_too_large(file: str, data: bytes) -> Iterator[_FileDocument]:
    """Yield the documents of a JSON text in which a number may be larger than any that JSON's readers take."""
    from secondary_scheduler.yamltext import NotFinite

    def number(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else NotFinite(value, text, 0)

    for count, value in enumerate(_json_values(data, json.JSONDecoder(parse_float=number)), 1):
        yield _FileDocument(ObjectPlace(file, count), _encoded(value), (), _not_finite(value))


def _not_finite(content: Any) -> dict[int | None, str]:
    """What is to be said of the numbers that JSON does not have; the first of each object."""
    from secondary_scheduler.yamltext import not_finite_in

    is_list = isinstance(content, dict) and str(content.get("kind")).endswith("List")
    refused: dict[int | None, str] = {}
    for path, number in not_finite_in(content):
        index = path[1] if is_list and len(path) > 2 and path[0] == "items" else None
        inside = path[2:] if isinstance(index, int) else path
        refused.setdefault(index if isinstance(index, int) else None, f"{path_text(inside)}: {number}")
    return refused


def _json_values(data: bytes, decoder: json.JSONDecoder | None = None) -> list[Any]:
    """Return the values of a text of several, as `kubectl … -o json` commands one after the other write it; none
    where it is something else."""
    decoder = decoder or json.JSONDecoder()
    values: list[Any] = []
    try:
        text = data.decode()
        at = _after_space(text, 0)
        while at < len(text):
            value, end = decoder.raw_decode(text, at)
            values.append(value)
            at = _after_space(text, end)
    except (ValueError, RecursionError):
        return []
    return values


def _after_space(text: str, at: int) -> int:
    # Looked for in place: with a copy of the rest for each value the time would grow with the square of the size.
    space = _SPACE.match(text, at)
    return space.end() if space is not None else at


def _json_problem(file: str, data: bytes, error: Exception) -> str:
    text = str(error)
    offset = text.rpartition("(byte ")[2].rstrip(")")
    place = f":{position(data, int(offset))}" if offset.isdigit() else ""
    if "truncated" in text:
        place = f":{position(data, len(data))}"
    reason = text.removeprefix("JSON is malformed: ").partition(" (byte")[0]
    return f"{file}{place}: document 1: not valid JSON: {reason}"


def _encoded(value: Any) -> bytes | None:
    try:
        # Numbers that JSON does not have become null; what holds one is refused.
        return msgspec.json.encode(value, enc_hook=lambda _: None)
    except _UNUSABLE:
        return None


def _entries(document: _FileDocument, report: InputReport) -> Iterator[Entry]:
    place, data, item_lines, refused = document
    type_meta = _typed(place, data, report)
    if type_meta is None or data is None:
        return
    api_version, kind = type_meta.api_version or "", type_meta.kind or ""
    if not kind.endswith("List"):
        if _complete(place, type_meta, report):
            yield Entry(place, api_version, kind, data, refused.get(None, ""))
        return
    try:
        items = _items.decode(data).items
    except _UNUSABLE as error:
        report.leave_out(place, kind, with_field(error))
        return
    # The items of a typed list, such as the API server sends, carry neither apiVersion nor kind.
    of_all = _TypeMeta(api_version, kind.removesuffix("List")) if kind != "List" else _TypeMeta()
    for index, raw in enumerate(items or ()):
        line = item_lines[index] if index < len(item_lines) else 0
        at = ObjectPlace(place.file, place.document, line, index)
        item = _typed(at, raw, report)
        if item is None:
            continue
        item.api_version, item.kind = item.api_version or of_all.api_version, item.kind or of_all.kind
        if _complete(at, item, report):
            yield Entry(at, item.api_version or "", item.kind or "", raw, refused.get(index, ""))


def _typed(place: ObjectPlace, data: bytes | Raw | None, report: InputReport) -> _TypeMeta | None:
    if data is None:
        report.leave_out(place, "", "holds a number or text that no Kubernetes object can hold")
        return None
    try:
        return _type.decode(data)
    except _UNUSABLE as error:
        problem = with_field(error).replace("expected object", "expected a Kubernetes object")
        report.leave_out(place, "", problem)
        return None


def _complete(place: ObjectPlace, type_meta: _TypeMeta, report: InputReport) -> bool:
    for field, text in (("apiVersion", type_meta.api_version), ("kind", type_meta.kind)):
        if not text:
            report.leave_out(place, type_meta.kind or "", f"{field}: is missing")
            return False
    return True


OLD_GROUP = "scheduling.sigs.k8s.io"
NEW_GROUP = "scheduling.x-k8s.io"
_OLD_LABEL = f"pod-group.{OLD_GROUP}"
WORKLOADS = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "CronJob": "batch",
    "ReplicationController": "",
}
"""API group by kind of what controllers make pods of."""
_NAME_LIMIT = 5


def of_objects(old: Sequence[str], workloads: Sequence[str]) -> Iterator[str]:
    """Yield what is to be said of objects of the old group, and of workloads that no cluster has made."""
    if old:
        yield (
            f"not read: {_named(old)} of the group {OLD_GROUP}, which scheduler-plugins calls {NEW_GROUP} since 0.25; "
            f"write apiVersion: {NEW_GROUP}/v1alpha1"
        )
    if workloads:
        yield f"{_named(workloads)}: {no_pods_of(workloads)}"


def no_pods_of(workloads: Collection[str]) -> str:
    """Return why manifests of workloads give no pods, and how to get some."""
    makes = "a workload makes" if len(workloads) == 1 else "workloads make"
    return (
        f"{makes} no pods here, as no controller runs: give the Pods, with spec.template as metadata and spec, or "
        "those of a cluster that runs it (kubectl get pods -o yaml)"
    )


def of_labels(pods: Iterable[PodInfo]) -> Iterator[str]:
    """Yield what is to be said of pods with the old label of PodGroups."""
    names = [
        f"{pod.namespace}/{pod.name}" for pod in pods if _OLD_LABEL in pod.labels and POD_GROUP_LABEL not in pod.labels
    ]
    if names:
        belongs = "belongs" if len(names) == 1 else "belong"
        yield (
            f"{_named(names)} {belongs} to no PodGroup: the label {_OLD_LABEL} is called {POD_GROUP_LABEL} since "
            "scheduler-plugins 0.25; write that"
        )


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAME_LIMIT
    return ", ".join(names[:_NAME_LIMIT]) + (f" and {more} more" if more > 0 else "")
