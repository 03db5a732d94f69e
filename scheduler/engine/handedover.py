"""The history of decisions on its way from one leader to the next, as JSON.

What arrives is only ever shown. It is checked all the same, record by record: the one that sent it may be of another
version, or worse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from scheduler.answers import API_VERSION, DecisionDetail
from scheduler.engine.decisionrecords import MAX_MESSAGE, MAX_VICTIMS, Record
from scheduler.kube.client import Forbidden, KubeError, NotFound, Reflector

MAX_HANDOVER_BYTES: Final = 8 << 20
"""Of a history; a thousand decisions on a large cluster have some 4 MiB."""
_KIND: Final = "DecisionHistory"
_MAX_NAME: Final = 253
_MAX_DETAILS: Final = 64 << 10
"""Bytes; the largest that were seen have some 10 KiB."""
_MAX_NAMES: Final = 100
_encode = msgspec.json.Encoder().encode


class HandedOver(Struct, frozen=True):
    """A history that was handed over.

    Attributes:
        since: seconds since 1970 from which on it has all attempts.
        records: the oldest first.
        refused: records that could not be used.
    """

    since: float
    records: Sequence[Record]
    refused: int


class HistoryError(ValueError):
    """What arrived is no history."""


class _HistoryDocument(Struct, rename="camel"):
    api_version: str
    kind: str
    since: float
    records: list[msgspec.Raw]


_document = msgspec.json.Decoder(_HistoryDocument)
_record = msgspec.json.Decoder(Record)
_details = msgspec.json.Decoder(DecisionDetail)


def encode_history(newest_first: Iterable[Record], since: float, max_bytes: int = MAX_HANDOVER_BYTES) -> bytes:
    """Return a history as JSON of so many bytes at most, without the oldest where there are more."""
    parts: list[msgspec.Raw] = []
    size = 0
    for record in newest_first:
        encoded = _encode(record)
        size += len(encoded) + 1
        if size > max_bytes - 1024:
            since = record.at
            break
        parts.append(msgspec.Raw(encoded))
    return _encode(_HistoryDocument(API_VERSION, _KIND, since, parts))


def decode_history(body: bytes, now: float, limit: int) -> HandedOver:
    """Read a history; of its records only the newest `limit` are looked at. Takes some 20 µs for each.

    Args:
        body: as `encode_history` returns it.
        now: seconds since 1970; no time is later.
        limit: records.

    Raises:
        HistoryError: it is something else.
    """
    try:
        document = _document.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"not a history: {error}") from error
    if (document.api_version, document.kind) != (API_VERSION, _KIND):
        raise HistoryError(f"not a history: {document.api_version[:80]} {document.kind[:80]}")
    looked_at = document.records[:limit]
    records = list(_usable(looked_at, now))
    since = min(max(0.0, document.since), now)
    if len(document.records) > limit and records:
        since = max(since, records[-1].at)
    return HandedOver(since, records[::-1], len(looked_at) - len(records))


def _usable(encoded: Iterable[msgspec.Raw], now: float) -> Iterator[Record]:
    for raw in encoded:
        try:
            record = _record.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if _is_bounded(record):
            record.at = min(max(0.0, record.at), now)
            record.details = _checked(record.details)
            yield record


def _is_bounded(record: Record) -> bool:
    names = [record.namespace, record.name, record.uid, record.scheduler_name, record.node or "", record.queue]
    names += [record.nominated_node, record.decided_by, *record.rejectors, *record.load_ages]
    names += [name for victim in record.victims for name in victim]
    counts = len(record.rejectors), len(record.load_ages)
    return (
        all(len(name) <= _MAX_NAME for name in names)
        and len(record.message) <= MAX_MESSAGE
        and len(record.victims) <= MAX_VICTIMS
        and all(count <= _MAX_NAMES for count in counts)
    )


def _checked(details: bytes | None) -> bytes | None:
    """Details in the form that this version has; None for others."""
    if details is None or len(details) > _MAX_DETAILS:
        return None
    try:
        return _encode(_details.decode(details))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


_RETRY_SECONDS: Final = 1.0
_GIVEN_AWAY: Final = ("pods", "resourceclaims")
"""Where it stands what has been given away: the room of nodes, and devices. Two pods, or two claims, that get the same
do not conflict at the API server. Volumes and their claims do: each is a patch of the version that is known."""
log = structlog.get_logger(component="takeover")


class Takeover:
    """Reads pods and ResourceClaims once more when this replica takes over from another.

    The leader before may have bound pods until a moment ago. A watch shows them milliseconds later, unless its
    connection broke or the API server that it is connected to lags behind: then the new leader would give the same room
    or device to others. kube-scheduler decides by what its watches have shown.
    """

    def __init__(self, reflectors: Mapping[str, Reflector[Any, Any]], ready: Callable[[], None]) -> None:
        """`reflectors` are those of the caches, by resource; `ready` is called once a quorum read has filled them."""
        self._reflectors = reflectors
        self._ready = ready
        self._begun = asyncio.Event()

    @property
    def pending(self) -> bool:
        """Whether they have still to be read: nothing may be decided until then."""
        return self._begun.is_set()

    def begin(self) -> None:
        """Begin a takeover; `run` completes it."""
        self._begun.set()

    async def run(self) -> None:
        """Complete takeovers until cancelled. A read that fails is tried again: without it nothing may be bound."""
        while True:
            await self._begun.wait()
            try:
                await self._read()
            except KubeError as error:
                message = "pods and ResourceClaims are not read again yet, nothing is scheduled before"
                log.warning(message, reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._begun.clear()
            self._ready()

    async def _read(self) -> None:
        for resource in _GIVEN_AWAY:
            reflector = self._reflectors.get(resource)
            if reflector is None or reflector.state.absent or reflector.state.unread:
                continue
            try:
                await reflector.refresh()
            except (Forbidden, NotFound) as error:
                # Pods that use no such object must not wait for one that cannot be read.
                if not reflector.optional:
                    raise
                log.warning("not read again after a takeover", resource=resource, reason=str(error))
