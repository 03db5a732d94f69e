"""Kubernetes objects in files: single documents, multi-document YAML, Lists, JSON, and any mix of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from secondary_scheduler.errors import InputError
from secondary_scheduler.files import MOST_OBJECTS, read_bytes
from secondary_scheduler.simulation.report import Place, Report, with_field

_BOM = b"\xef\xbb\xbf"
_TRAILING = "trailing characters"
_RECORDING = re.compile(rb'\s*\{\s*"apiVersion":\s*"[^"]*",\s*"kind":\s*"ClusterRecording"')
_SPACE = re.compile(r"\s*")
_UNUSABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, TypeError, ValueError)


class Entry(NamedTuple):
    """One object, not decoded yet: `data` is JSON."""

    place: Place
    api_version: str
    kind: str
    data: bytes | Raw


class _TypeMeta(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None


class _Items(Struct):
    items: list[Raw] | None = None


_type = msgspec.json.Decoder(_TypeMeta)
_items = msgspec.json.Decoder(_Items)


def read_entries(file: str, report: Report) -> Iterator[Entry]:
    """Yield the objects of a file (`-` is standard input), Lists taken apart. What is no object is reported.

    Raises:
        InputError: the file cannot be read, or is neither YAML nor JSON.
    """
    for place, data, item_lines in _documents(file, read_objects(file)):
        yield from _entries(place, data, item_lines, report)


def read_objects(file: str) -> bytes:
    """Return the content of a file of objects or load.

    Raises:
        InputError: it cannot be read, or is larger than any snapshot.
    """
    return read_bytes(file, most=MOST_OBJECTS).removeprefix(_BOM)


def position(data: bytes, offset: int) -> str:
    """Return `line:column` (from 1) of a byte."""
    line = data.count(b"\n", 0, offset) + 1
    column = offset - data.rfind(b"\n", 0, offset)
    return f"{line}:{column}"


def _documents(file: str, data: bytes) -> Iterator[tuple[Place, bytes | None, Sequence[int]]]:
    """Yield (place, JSON, lines of items) per document; None for one that cannot be written as JSON."""
    if _RECORDING.match(data):
        raise InputError(f"{file}: is a recording, not a snapshot; plan takes it with --recording")
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            # Nothing is decoded yet: this only finds out whether it is JSON as a whole.
            msgspec.json.decode(data, type=Raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if _TRAILING in str(error) and (values := _json_values(data)):
                for number, value in enumerate(values, 1):
                    yield Place(file, number), _encoded(value), ()
                return
            if file.endswith(".json"):
                raise InputError(_json_problem(file, data, error)) from error
        else:
            yield Place(file, 1), data, ()
            return
    # Here, since a JSON file needs no YAML parser to be imported.
    from secondary_scheduler import yamltext

    for number, document in enumerate(yamltext.documents(data, file), 1):
        if document.content is not None:
            yield Place(file, number, document.line), _encoded(document.content), document.item_lines


def _json_values(data: bytes) -> list[Any]:
    """Return the values of a text of several, as `kubectl … -o json` commands one after the other write it; none
    where it is something else."""
    decoder = json.JSONDecoder()
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
        return msgspec.json.encode(value)
    except _UNUSABLE:
        return None


def _entries(place: Place, data: bytes | None, item_lines: Sequence[int], report: Report) -> Iterator[Entry]:
    type_meta = _typed(place, data, report)
    if type_meta is None or data is None:
        return
    api_version, kind = type_meta.api_version or "", type_meta.kind or ""
    if not kind.endswith("List"):
        if _complete(place, type_meta, report):
            yield Entry(place, api_version, kind, data)
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
        at = Place(place.file, place.document, line, index)
        item = _typed(at, raw, report)
        if item is None:
            continue
        item.api_version, item.kind = item.api_version or of_all.api_version, item.kind or of_all.kind
        if _complete(at, item, report):
            yield Entry(at, item.api_version or "", item.kind or "", raw)


def _typed(place: Place, data: bytes | Raw | None, report: Report) -> _TypeMeta | None:
    if data is None:
        report.leave_out(place, "", "holds a number or text that no Kubernetes object can hold")
        return None
    try:
        return _type.decode(data)
    except _UNUSABLE as error:
        problem = with_field(error).replace("expected object", "expected a Kubernetes object")
        report.leave_out(place, "", problem)
        return None


def _complete(place: Place, type_meta: _TypeMeta, report: Report) -> bool:
    for field, text in (("apiVersion", type_meta.api_version), ("kind", type_meta.kind)):
        if not text:
            report.leave_out(place, type_meta.kind or "", f"{field}: is missing")
            return False
    return True
