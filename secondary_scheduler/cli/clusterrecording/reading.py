"""Reading a recording: the cluster as it was, and what happened, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from msgspec import Struct

from secondary_scheduler.cli.clusterrecording.form import (
    FORMAT_VERSION,
    KIND,
    EndReason,
    Header,
    Line,
    LineType,
    decode_header,
    decode_line,
)
from secondary_scheduler.cli.errors import InputError
from secondary_scheduler.files import MAX_OBJECTS, read_bytes
from secondary_scheduler.simulation.documents import Entry
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import InputReport, ObjectPlace, with_field

_UNUSABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)
_OBJECT_LINES = (LineType.SNAPSHOT, LineType.ADDED, LineType.MODIFIED, LineType.DELETED)


class _RecordedMeta(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _RecordedIdentity(Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: _RecordedMeta


_identity = msgspec.json.Decoder(_RecordedIdentity)


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to an object, or to a watch.

    Attributes:
        time: seconds since the epoch, when it was read; never before the one of the event before it.
        type: what happened.
        kind: of the object, or of what the watch is of.
        namespace, name, uid: of the object; "" where it is about a watch.
        entry: the object as it is now; None where it is gone, or there is none.
        message: why a watch was lost.
    """

    time: float
    type: LineType
    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    entry: Entry | None = None
    message: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return self.kind, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording.

    Attributes:
        title: the file's name.
        snapshot: the objects at the beginning, each as an event.
        events: what happened after that.
        start, end: seconds since the epoch.
        ended: why it ended; None where the last line is missing.
    """

    title: str
    header: Header
    snapshot: tuple[Event, ...]
    events: tuple[Event, ...]
    start: float
    end: float
    ended: EndReason | None

    @property
    def gaps(self) -> list[str]:
        """What the recording does not hold, a line each."""
        lines = [
            f"{event.kind}: listed again; what happened while the watch was lost is known by its result only"
            for event in self.events
            if event.type is LineType.RELISTED
        ]
        lost: dict[str, Event] = {}
        for event in self.events:
            if event.type is LineType.LOST:
                lost[event.kind] = event
            elif event.type in (LineType.RESUMED, LineType.RELISTED):
                lost.pop(event.kind, None)
        lines += [f"{event.kind}: lost, and not found again until the end: {event.message}" for event in lost.values()]
        if self.ended is None:
            lines.append("the last line is missing: whatever wrote the recording was ended by force")
        elif self.ended is EndReason.LIMIT:
            lines.append("the recording ended at its --record-limit")
        return lines

    def objects_at(self, moment: float, report: InputReport) -> RecordedObjects:
        """Return the cluster's objects as they were at a time; what is wrong with one is reported."""
        entries = {event.key: event.entry for event in self.snapshot if event.entry is not None}
        for event in self.events:
            if event.time > moment:
                break
            if event.entry is not None:
                entries[event.key] = event.entry
            elif event.type is LineType.DELETED:
                entries.pop(event.key, None)
        objects = RecordedObjects(report)
        objects.add(entries.values())
        return objects


def read_recording(file: str, report: InputReport) -> Recording:
    """Read a recording; a line that cannot be used is reported, and left out.

    Args:
        file: path; `-` is stdin.
        report: gets what is left out.

    Raises:
        InputError: it cannot be read, or is no recording that this version knows.
    """
    data = read_bytes(file, limit=MAX_OBJECTS, option="--recording")
    lines = data.splitlines()
    del data
    header = _header(file, lines[0] if lines else b"")
    start = end = header.start.timestamp()
    snapshot: list[Event] = []
    events: list[Event] = []
    ended = None
    for line, event in _events(file, lines, report):
        if line.type is LineType.SNAPSHOT:
            snapshot.append(event)
            continue
        # The clock of the machine that recorded may have been set back.
        end = max(end, event.time)
        if line.type is LineType.END:
            ended = EndReason(line.message) if line.message in list(EndReason) else None
            continue
        events.append(event if event.time == end else replace(event, time=end))
    return Recording(
        "standard input" if file == "-" else Path(file).name, header, tuple(snapshot), tuple(events), start, end, ended
    )


def _header(file: str, line: bytes) -> Header:
    try:
        header = decode_header.decode(line)
    except _UNUSABLE:
        header = None
    if header is None or header.kind != KIND:
        raise InputError(f"--recording {file}: is no recording; secondary-scheduler snapshot --record takes one")
    if header.format_version != FORMAT_VERSION:
        raise InputError(
            f"--recording {file}: formatVersion is {header.format_version}, and this version reads {FORMAT_VERSION}; "
            "use the version of secondary-scheduler that recorded it"
        )
    return header


def _events(file: str, lines: list[bytes], report: InputReport) -> Iterator[tuple[Line, Event]]:
    for number, text in enumerate(lines[1:], 2):
        place = ObjectPlace(file, number, number)
        try:
            line = decode_line.decode(text)
            if line.type not in _OBJECT_LINES:
                yield line, Event(line.time.timestamp(), line.type, line.kind, message=line.message)
                continue
            if not bytes(line.object):
                raise ValueError("object: is missing")
            identity = _identity.decode(line.object)
            if identity.kind == "Pod" and not identity.metadata.uid:
                raise ValueError("object.metadata.uid: is missing")
        except _UNUSABLE as error:
            if number == len(lines):
                report.warn(f"{place}: the last line is cut off; left out")
            else:
                report.leave_out(place, "", with_field(error))
            continue
        meta = identity.metadata
        gone = line.type is LineType.DELETED
        entry = None if gone else Entry(place, identity.api_version, identity.kind, line.object)
        yield (
            line,
            Event(line.time.timestamp(), line.type, identity.kind, meta.namespace, meta.name, meta.uid, entry),
        )
