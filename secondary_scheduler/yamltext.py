"""YAML documents as plain data, with their lines: what kubectl would make of the same text.

Built from libyaml's events: composing nodes first, as PyYAML's loaders do, takes several times the memory. Scalars
are read by Kubernetes' rules (no dates, no sexagesimal numbers), keys always as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

from scheduler.catalog import Loc
from scheduler.config import plain_scalar
from secondary_scheduler.errors import InputError

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_MAX_ALIASED = 1_000_000
"""Values that aliases may add to a document; a few lines can otherwise stand for gigabytes."""
_scalar = lru_cache(maxsize=65536)(plain_scalar)


class NotFinite(float):
    """A number that JSON does not have, such as `.inf`, `.nan` or `1e400`.

    Attributes:
        written: as it stands in the file.
        line: from 1; 0 where it is not known.
    """

    def __new__(cls, value: float, written: str, line: int) -> NotFinite:
        """Return the number."""
        number = super().__new__(cls, value)
        number.written = written
        number.line = line
        return number

    written: str
    line: int

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line else ""
        return f"unsupported value: {self.written}{line}"


class YamlDocument(NamedTuple):
    """One document: its first line (from 1), its content, the lines of the elements of a top-level `items`, and whether
    it holds a `NotFinite`."""

    line: int
    content: Any
    item_lines: tuple[int, ...]
    has_not_finite: bool = False


def documents(data: bytes, file: str, *, keep_not_finite: bool = False) -> Iterator[YamlDocument]:
    """Yield the documents of a text, empty ones too, as they are read.

    Args:
        data: the text.
        file: its name.
        keep_not_finite: the caller refuses a `NotFinite` where it stands.

    Raises:
        InputError: the text is not YAML, or holds a number that JSON does not have; the message has line and column.
    """
    builder = _YAMLBuilder(file, keep_not_finite=keep_not_finite)
    try:
        for event in yaml.parse(data, Loader=_LOADER):
            if builder.take(event):
                yield YamlDocument(builder.line, builder.content, tuple(builder.item_lines), builder.has_not_finite)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        problem = " ".join(str(error.problem or error.context or "cannot be read").split())
        raise InputError(f"{file}{place}: document {builder.number}: not valid YAML: {problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise InputError(f"{file}: document {builder.number}: not valid YAML: {problem}") from error


def not_finite_in(value: Any, path: Loc = ()) -> Iterator[tuple[Loc, NotFinite]]:
    """Yield every `NotFinite` of a content, with its path."""
    if type(value) is NotFinite:
        yield path, value
    elif type(value) is dict:
        for key, inner in value.items():
            yield from not_finite_in(inner, (*path, key))
    elif type(value) is list:
        for index, inner in enumerate(value):
            yield from not_finite_in(inner, (*path, index))


def dump_yaml(value: Any) -> bytes:
    """Return plain data as a YAML document that reads back the same under Kubernetes' rules: text such as `y` or
    `12e3`, which PyYAML would leave bare, is quoted."""
    text: str = yaml.dump(value, Dumper=_BlockDumper, sort_keys=False, width=1 << 20, allow_unicode=True)
    return text.encode()


class _BlockDumper(_DUMPER):  # type: ignore[misc]
    """Shares nothing by anchors, which make files hard to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(dumper: Any, text: str) -> Any:
    style = None if isinstance(plain_scalar(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BlockDumper.add_representer(str, _text_node)


class _Frame:
    """A list or map under construction. `key` is the map's key whose value comes next."""

    __slots__ = ("anchor", "count", "key", "merged", "merging", "target")

    def __init__(self, target: Any, anchor: str | None, count: int) -> None:
        self.target = target
        self.anchor = anchor
        self.count = count
        self.key: str | None = None
        self.merging = False
        self.merged: list[Any] = []


class _YAMLBuilder:
    """Turns events into one document after another."""

    def __init__(self, file: str, *, keep_not_finite: bool) -> None:
        self._file = file
        self._keep_not_finite = keep_not_finite
        self.number = 1
        self._begin(0)

    def _begin(self, line: int) -> None:
        self.line = line
        self.content: Any = None
        self.item_lines: list[int] = []
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._aliased = 0
        self._empty = True
        self._ended = False
        self.has_not_finite = False

    def take(self, event: Any) -> bool:
        """Take in an event; True when a document is complete."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            # Plain text may be a number; what is quoted or tagged as a string is not.
            value = _scalar(event.value) if event.implicit[0] or _is_number_tag(event.tag) else event.value
            if type(value) is float and not math.isfinite(value):
                value = self._not_finite(value, event)
            self._handle_scalar(event, value)
        elif kind is yaml.MappingStartEvent:
            self._open({}, event)
        elif kind is yaml.SequenceStartEvent:
            self._open([], event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._close(event)
        elif kind is yaml.AliasEvent:
            self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            if self._ended:
                self.number += 1
            self._begin(event.start_mark.line + 1)
        elif kind is yaml.DocumentEndEvent:
            self._ended = True
            return True
        return False

    def _handle_scalar(self, event: Any, value: Any) -> None:
        frame = self._stack[-1] if self._stack else None
        if frame is not None and type(frame.target) is dict and frame.key is None:
            self._key(frame, event)
            return
        self._count += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self._put(value, event)

    def _not_finite(self, value: float, event: Any) -> NotFinite:
        if not self._keep_not_finite:
            mark = event.start_mark
            place = f"{self._file}:{mark.line + 1}:{mark.column + 1}: document {self.number}"
            raise InputError(f"{place}: unsupported value: {event.value}: JSON has no such number")
        self.has_not_finite = True
        return NotFinite(value, event.value, event.start_mark.line + 1)

    def _key(self, frame: _Frame, event: Any) -> None:
        key = event.value
        if key in frame.target:
            self._fail(event, f'key "{key}" is set twice')
        if event.anchor is not None:
            self._anchors[event.anchor] = (key, 1)
        frame.key = key
        # In quotes it is a key like any other.
        frame.merging = key == "<<" and bool(event.implicit[0])

    def _open(self, target: Any, event: Any) -> None:
        if self._stack and type(self._stack[-1].target) is dict and self._stack[-1].key is None:
            self._fail(event, "a key must be plain text")
        if self._empty:
            self._empty = False
            # The document's marker may stand on the same line or lines above.
            self.line = event.start_mark.line + 1
        elif len(self._stack) == 2 and self._stack[0].key == "items":
            self.item_lines.append(event.start_mark.line + 1)
        self._stack.append(_Frame(target, event.anchor, self._count))

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        value = frame.target
        for source in frame.merged:
            value = {**source, **value}
        self._count += 1
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (value, self._count - frame.count)
        self._put(value, event)

    def _alias(self, event: Any) -> None:
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            self._fail(event, f"*{event.anchor} refers to nothing before it")
            return
        value, size = anchored
        self._aliased += size
        self._count += size
        if self._aliased > _MAX_ALIASED:
            self._fail(event, "the document is too large when its aliases are expanded")
        frame = self._stack[-1] if self._stack else None
        if frame is not None and type(frame.target) is dict and frame.key is None:
            if type(value) is not str:
                self._fail(event, "a key must be plain text")
            frame.key = value
            return
        self._put(value, event)

    def _put(self, value: Any, event: Any) -> None:
        if not self._stack:
            self.content = value
            return
        frame = self._stack[-1]
        target = frame.target
        if type(target) is list:
            target.append(value)
            return
        key, frame.key = frame.key, None
        if frame.merging:
            frame.merging = False
            sources = value if type(value) is list else [value]
            if not all(type(source) is dict for source in sources):
                self._fail(event, "<< takes a map or a list of maps")
            frame.merged += sources
            return
        target[key] = value

    def _fail(self, event: Any, problem: str) -> None:
        mark = event.start_mark
        raise InputError(
            f"{self._file}:{mark.line + 1}:{mark.column + 1}: document {self.number}: not valid YAML: {problem}"
        )


def _is_number_tag(tag: str | None) -> bool:
    return tag is not None and tag.startswith("tag:yaml.org,2002:") and not tag.endswith(":str")
