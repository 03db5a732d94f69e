"""The form of a recording: lines of JSON. The first says what it is; then come the cluster as it was, what happened,
and how it ended."""

from __future__ import annotations

import enum
from collections import Counter
from datetime import UTC, datetime
from typing import IO, Final

import msgspec
from msgspec import Raw, Struct

KIND: Final = "ClusterRecording"
FORMAT_VERSION: Final = 1
"""It changes where a reader of the former one would misread a file."""


class LineType(enum.StrEnum):
    """What a line says."""

    SNAPSHOT = "SNAPSHOT"
    """An object that was there when the recording began."""
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    """The object's identity only."""
    LOST = "LOST"
    """The watch of a kind, or the source of the load, does not answer."""
    RESUMED = "RESUMED"
    """It answers again, and nothing is missing; what happened meanwhile has the time at which it was read."""
    RELISTED = "RELISTED"
    """A kind was listed again, as its watch could not be resumed. What happened meanwhile is known by its result."""
    END = "END"


class EndReason(enum.StrEnum):
    """Why a recording ended; `message` of the line END."""

    DURATION = "duration"
    INTERRUPTED = "interrupted"
    LIMIT = "limit"


class Header(Struct, rename="camel", frozen=True):
    """The first line.

    Attributes:
        git_version: of the cluster; "" where it does not say.
        load: where the load comes from, "Prometheus" or "load-watcher"; "" where it is not recorded.
        load_interval_seconds: between two readings of it.
    """

    api_version: str
    kind: str
    format_version: int
    git_version: str
    start: datetime
    load: str = ""
    load_interval_seconds: float = 0.0


class ObjectLine(Struct, frozen=True):
    """A line about an object: `object` is its JSON, reduced as in a snapshot."""

    time: datetime
    type: LineType
    object: Raw


class NoteLine(Struct, frozen=True, omit_defaults=True):
    """Any other line.

    Attributes:
        time: when it was read.
        kind: of the watch that was lost, resumed or listed again; `NodeLoad` for the load.
        message: why it was lost; why the recording ended.
    """

    time: datetime
    type: LineType
    kind: str = ""
    message: str = ""


class Line(Struct, frozen=True):
    """Any line but the first, for readers; `object` is empty where there is none."""

    time: datetime
    type: LineType
    kind: str = ""
    message: str = ""
    object: Raw = Raw(b"")


decode_header: Final = msgspec.json.Decoder(Header)
decode_line: Final = msgspec.json.Decoder(Line)


_LAST_LINE = 4096
"""Bytes that are kept for the last line."""


class RecordingWriter:
    """The lines of a recording.

    Attributes:
        full: a line did not fit; nothing but the end is written after it.
        size: bytes written.
        counts: lines written, by type.
    """

    def __init__(self, out: IO[bytes], max_bytes: int) -> None:
        """`max_bytes`: bytes of the whole file."""
        self._out = out
        self._max_bytes = max_bytes
        self.full = False
        self.size = 0
        self.counts: Counter[LineType] = Counter()

    def begin(self, header: Header) -> None:
        """Write the first line."""
        self._put(msgspec.json.encode(header))

    def object(self, kind: LineType, data: bytes) -> None:
        """Write what happened to an object, whose JSON is given."""
        self._line(ObjectLine(now(), kind, Raw(data)))

    def note(self, kind: LineType, about: str, message: str = "") -> None:
        """Write that a watch was lost, or goes on."""
        self._line(NoteLine(now(), kind, about, message[:1000]))

    def end(self, reason: EndReason) -> None:
        """Write the last line."""
        self._put(msgspec.json.encode(NoteLine(now(), LineType.END, message=str(reason))))
        self.flush()

    def flush(self) -> None:
        """Hand everything to the file."""
        self._out.flush()

    def _line(self, line: ObjectLine | NoteLine) -> None:
        data = msgspec.json.encode(line)
        if self.full or self.size + len(data) + 1 > self._max_bytes - _LAST_LINE:
            self.full = True
            return
        self._put(data)
        self.counts[line.type] += 1

    def _put(self, data: bytes) -> None:
        self._out.write(data + b"\n")
        self.size += len(data) + 1


def now() -> datetime:
    """Return the time in UTC, to the millisecond."""
    at = datetime.now(UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)
