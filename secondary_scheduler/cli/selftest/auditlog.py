"""What the instances under test did with their rights, by the audit log of the API server."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from secondary_scheduler.cli.errors import InputError
from secondary_scheduler.cli.selftest.objects import Right

MAX_LINE = 4 << 20
"""Bytes of an entry: more than an object may have, twice."""
MAX_LOG = 1 << 30
"""Bytes that are read of a log: 15 minutes of a very busy API server."""
_MAX_REFUSALS = 1000
_STARTED, _COMPLETE = "ResponseStarted", "ResponseComplete"
_FORBIDDEN = 403
_READS = frozenset({"get", "list", "watch"})


class _User(msgspec.Struct):
    username: str = ""


class _Reference(msgspec.Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""
    api_group: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Event(msgspec.Struct, rename="camel", tag_field="kind", tag="Event"):
    api_version: str
    stage: str
    verb: str
    user: _User
    object_ref: _Reference | None = None
    response_status: _Status | None = None


class AuditFindings:
    """What a log has of one user.

    Attributes:
        requests: how many it made of an object of the API, without those that are still going on.
        unreadable: lines that are no Event of audit.k8s.io/v1.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.unreadable = 0
        self._used: set[Right] = set()
        self._refused: Counter[Right] = Counter()

    def add(self, right: Right, code: int, *, has_ended: bool) -> None:
        """Count a request in that is answered; a watch goes on then."""
        self.requests += has_ended
        if code != _FORBIDDEN:
            self._used.add(right)
        elif has_ended and (right in self._refused or len(self._refused) < _MAX_REFUSALS):
            self._refused[right] += 1

    def unused(self, held: Sequence[Right]) -> list[Right]:
        """Return those of these rights that the log has no request for. Reads are left out where it has none at all, as
        its policy does not log them then, and writes likewise."""
        logged = {right.verb in _READS for right in self._used}
        return [right for right in held if (right.verb in _READS) in logged and right not in self._used]

    @property
    def has_reads(self) -> bool:
        """Whether the log has any get, list or watch of the user."""
        return any(right.verb in _READS for right in self._used)

    @property
    def refused(self) -> Mapping[Right, int]:
        """What was refused with 403, and how often."""
        return self._refused


class AuditLog:
    """A log that an API server goes on writing, from where it is now.

    Args:
        file: JSON lines.

    Raises:
        InputError: it cannot be read.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        with self._opened() as log:
            status = os.fstat(log.fileno())
        self._identity, self._start = (status.st_dev, status.st_ino), status.st_size

    def read(self, user: str, findings: AuditFindings) -> None:
        """Count what has come since.

        Args:
            user: whose requests count.
            findings: what is counted up.

        Raises:
            InputError: it cannot be read, or not as a whole.
        """
        with self._opened() as log:
            status = os.fstat(log.fileno())
            if (status.st_dev, status.st_ino) != self._identity or status.st_size < self._start:
                raise self._error("it was rotated during the run, so that the run's beginning is missing; run it again")
            if status.st_size - self._start > MAX_LOG:
                raise self._error(f"more than {MAX_LOG >> 20} MiB were written during the run")
            log.seek(self._start)
            for line in _lines(log, status.st_size - self._start):
                _take(line, user, findings)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        try:
            if not self._file.is_file():
                raise self._error("no such file" if not self._file.exists() else "not a regular file")
            with self._file.open("rb") as log:
                yield log
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error

    def _error(self, problem: str) -> InputError:
        return InputError(f"--audit-log {self._file}: {problem}")


def held_rights(objects: Sequence[Mapping[str, Any]]) -> list[Right]:
    """Return what the Roles and ClusterRoles among these objects grant, by verb and resource, sorted."""
    rules = (rule for item in objects if item["kind"] in ("Role", "ClusterRole") for rule in item["rules"])
    rights = {
        Right(verb, group, *resource.split("/", 1))
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }
    return sorted(rights, key=lambda right: (right.group, right.resource, right.subresource, right.verb))


def described(findings: AuditFindings, held: Sequence[Right]) -> Iterator[str]:
    """Yield in words which of these rights were used."""
    unused = findings.unused(held)
    yield (
        f"the audit log has {findings.requests} requests of the instances; of {len(held)} rights of their own Role and "
        f"ClusterRole {len(unused)} were not used"
    )
    if not findings.has_reads:
        yield "it has no get, list or watch of them: the audit policy leaves these out, so that they are not judged"
    for group in dict.fromkeys(right.group for right in unused):
        verbs: dict[str, list[str]] = {}
        for right in unused:
            if right.group == group:
                verbs.setdefault(right.path, []).append(right.verb)
        names = "; ".join(f"{path} ({', '.join(own)})" for path, own in verbs.items())
        yield f"not used in {group or 'the core group'}: {names}"


def _lines(log: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the lines of the next `size` bytes. One beyond `MAX_LINE` is cut, and with that no JSON; a last one that is
    still being written is left out."""
    left = size
    while left > 0 and (line := log.readline(min(MAX_LINE, left))):
        left -= len(line)
        end = line
        while left > 0 and end and not end.endswith(b"\n"):
            end = log.readline(min(MAX_LINE, left))
            left -= len(end)
        if end.endswith(b"\n"):
            yield line


def _take(line: bytes, user: str, findings: AuditFindings) -> None:
    if not line.strip():
        return
    try:
        event = _DECODER.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        findings.unreadable += 1
        return
    if event.api_version != "audit.k8s.io/v1":
        findings.unreadable += 1
        return
    reference, status = event.object_ref, event.response_status
    if event.user.username != user or reference is None or event.stage not in (_STARTED, _COMPLETE):
        return
    right = Right(event.verb, reference.api_group, reference.resource, reference.subresource)
    findings.add(right, status.code if status else 0, has_ended=event.stage == _COMPLETE)


_DECODER = msgspec.json.Decoder(_Event)
