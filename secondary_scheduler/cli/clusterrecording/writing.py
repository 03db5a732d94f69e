"""Writing a recording line by line, never beyond a limit."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import IO

import msgspec
from msgspec import Raw

from secondary_scheduler.cli.clusterrecording.form import EndReason, Header, LineType, NoteLine, ObjectLine

_LAST_LINE = 4096
"""Bytes that are kept for the last line."""


class RecordingWriter:
    """The lines of a recording.

    Attributes:
        full: a line did not fit; nothing but the end is written after it.
        size: bytes written.
        counts: lines written, by type.
    """

    def __init__(self, out: IO[bytes], most: int) -> None:
        """`most`: bytes of the whole file."""
        self._out = out
        self._most = most
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
        if self.full or self.size + len(data) + 1 > self._most - _LAST_LINE:
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
