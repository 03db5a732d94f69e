"""Decoders, built once per kind: one pass over the bytes where all is well, object by object where something is not."""

from __future__ import annotations

import contextlib
import re
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from scheduler.kube.model.meta import ListMeta, Object, ObjectMeta, ResourceVersion, Status

T = TypeVar("T", bound=Object)


class DecodeError(ValueError):
    """An object that does not have the shape its kind should have; the message holds the field path."""


class InvalidObject(Struct, frozen=True):
    """An object of a list or watch that could not be decoded."""

    metadata: ObjectMeta
    """As much of it as could be read."""
    error: DecodeError
    content: Any = None
    """All of it as plain dicts and lists, without nulls; None where it is no JSON."""


class ListPage(Struct, Generic[T], frozen=True):
    """One page of a list; `continue_token` is "" on the last one."""

    items: list[T]
    invalid: list[InvalidObject]
    resource_version: ResourceVersion
    continue_token: str
    remaining: int | None


class WatchEvent(Struct, Generic[T], frozen=True):
    """One line of a watch. Exactly one of `object`, `status` and `invalid` is set."""

    type: str
    object: T | None = None
    status: Status | None = None
    """The failure that an ERROR event carries."""
    invalid: InvalidObject | None = None


class _List(Struct, Generic[T]):
    metadata: ListMeta = ListMeta()
    items: list[T] = []


class _RawList(Struct):
    metadata: Raw = Raw(b"{}")
    items: list[Raw] | None = None


class _Event(Struct, Generic[T]):
    type: str
    object: T


class _RawEvent(Struct):
    type: str
    object: Raw


class _OnlyListMeta(Struct):
    metadata: ListMeta = ListMeta()


_list_meta = msgspec.json.Decoder(_OnlyListMeta)
_raw_list = msgspec.json.Decoder(_RawList)
_raw_event = msgspec.json.Decoder(_RawEvent)
_any = msgspec.json.Decoder()


_HEAD = re.compile(rb'\{"kind":"[^"\\]*","apiVersion":"[^"\\]*",("metadata":\{[^{}]*\}),"items":')


def continue_token(page: bytes) -> str:
    """Tell what stands for the next page of a list; "" after the last one, and where it cannot be read."""
    # The API server writes it first for its own kinds, so that the objects need not be looked through for it.
    if (head := _HEAD.match(page)) is not None:
        page = b"{%b}" % head[1]
    try:
        return _list_meta.decode(page).metadata.continue_
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


class Codec(Generic[T]):
    """Decoders of one kind. Unknown fields are ignored, and null means absent, as in Kubernetes."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind

    # Each is made when it is first needed: most daemons watch half of the kinds, and get no single object of any.

    @cached_property
    def _object(self) -> msgspec.json.Decoder[T]:
        return msgspec.json.Decoder(self.kind)

    @cached_property
    def _list(self) -> msgspec.json.Decoder[_List[T]]:
        return msgspec.json.Decoder(_List[self.kind])  # type: ignore[name-defined]

    @cached_property
    def _event(self) -> msgspec.json.Decoder[_Event[T]]:
        return msgspec.json.Decoder(_Event[self.kind])  # type: ignore[name-defined]

    def decode(self, data: bytes | Raw) -> T:
        """Decode one object; raise DecodeError with the path of the offending field."""
        try:
            return self._object.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            # Nulls are rare enough to cost a second pass; what has none would fail again.
            if b"null" not in bytes(data):
                raise DecodeError(f"not a {self.kind.__name__}: {error}") from error
            return _convert(data, self.kind)

    def decode_list(self, data: bytes) -> ListPage[T]:
        """Decode a page of a list. Undecodable items are kept apart. Raises DecodeError if it is not a list."""
        try:
            fast = self._list.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._decode_list_slowly(data)
        return _page(fast.items, [], fast.metadata)

    def decode_event(self, line: bytes) -> WatchEvent[T]:
        """Decode one line of a watch; DecodeError if it is no event at all."""
        try:
            fast = self._event.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._decode_event_slowly(line)
        if fast.type == "ERROR":
            return self._decode_event_slowly(line)
        return WatchEvent(fast.type, fast.object)

    def _decode_list_slowly(self, data: bytes) -> ListPage[T]:
        try:
            raw = _raw_list.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError(f"not a list of {self.kind.__name__}: {error}") from error
        items, invalid = [], []
        for item in raw.items or ():
            try:
                items.append(self.decode(item))
            except DecodeError as error:
                invalid.append(_invalid(item, error))
        return _page(items, invalid, _convert(raw.metadata, ListMeta))

    def _decode_event_slowly(self, line: bytes) -> WatchEvent[T]:
        try:
            raw = _raw_event.decode(line)
            if raw.type == "ERROR":
                return WatchEvent(raw.type, status=_convert(raw.object, Status))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError(f"not a watch event: {error}") from error
        try:
            return WatchEvent(raw.type, self.decode(raw.object))
        except DecodeError as error:
            return WatchEvent(raw.type, invalid=_invalid(raw.object, error))


class Unstructured(Object, frozen=True, gc=False):
    """An object of any kind, its whole content kept as plain dicts and lists."""

    content: dict[str, Any] = msgspec.field(default_factory=dict)


class UnstructuredCodec(Codec[Unstructured]):
    """Decoders for kinds that are not modelled."""

    def __init__(self) -> None:
        super().__init__(Unstructured)

    def decode(self, data: bytes | Raw) -> Unstructured:
        """Decode any object."""
        content = _convert(data, dict[str, Any], keep_nulls=True)
        try:
            return Unstructured(msgspec.convert(_without_nulls(content.get("metadata", {})), ObjectMeta), content)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"not an API object: {error} (in metadata)") from error

    def decode_list(self, data: bytes) -> ListPage[Unstructured]:
        """Decode a page of objects of any kind."""
        return self._decode_list_slowly(data)

    def decode_event(self, line: bytes) -> WatchEvent[Unstructured]:
        """Decode one line of a watch on any kind."""
        return self._decode_event_slowly(line)


def decode_status(data: bytes) -> Status | None:
    """Decode the Status an API server answers a failure with, or None where the body is something else."""
    try:
        return _convert(data, Status)
    except DecodeError:
        return None


V = TypeVar("V")


def _convert(data: bytes | Raw, kind: type[V], *, keep_nulls: bool = False) -> V:
    name = getattr(kind, "__name__", str(kind))
    try:
        plain = _any.decode(data)
        return msgspec.convert(plain if keep_nulls else _without_nulls(plain), kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"not a {name}: {error}") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value]
    return value


def _invalid(raw: Raw, error: DecodeError) -> InvalidObject:
    """Keep what can be read of an object; its plain content is read once, however much it is."""
    content = None
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        content = _without_nulls(_any.decode(raw)) if b"null" in bytes(raw) else _any.decode(raw)
    return InvalidObject(_readable_meta(content), error, content)


def _readable_meta(content: Any) -> ObjectMeta:
    """Return an object's metadata; where it is itself malformed, what identifies the object."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    if not isinstance(metadata, dict):
        return ObjectMeta()
    try:
        return msgspec.convert(metadata, ObjectMeta)
    except (msgspec.MsgspecError, RecursionError):
        fields = {"name": "name", "namespace": "namespace", "uid": "uid", "resource_version": "resourceVersion"}
        return ObjectMeta(
            **{attribute: metadata[name] for attribute, name in fields.items() if type(metadata.get(name)) is str}
        )


def _page(items: list[T], invalid: list[InvalidObject], meta: ListMeta) -> ListPage[T]:
    return ListPage(items, invalid, meta.resource_version, meta.continue_, meta.remaining_item_count)
