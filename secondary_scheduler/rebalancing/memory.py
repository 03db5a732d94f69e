"""What a rebalancer keeps over a restart, as bounded JSON: its history, and when the last round was."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import msgspec
from msgspec import Struct

from secondary_scheduler.rebalancing.history import History, Outcome, PastMove

MOST_BYTES = 400_000
"""Of the text; a ConfigMap holds a MiB, and the status is in it, too."""
_MOST_TARGETS = 10
_MOST_OVERLOADED = 1000
_MOST_DETAIL = 300


class UnreadableMemory(ValueError):
    """What was kept cannot be read."""


class _Workload(Struct):
    kind: str
    namespace: str
    name: str


class _Move(Struct, rename={"source": "from", "target": "to", "all_targets": "allTargets", "begun_at": "begunAt"}):
    workload: _Workload
    pod: str
    uid: str
    source: str
    target: str
    begun_at: float
    ended_at: float | None = msgspec.field(default=None, name="endedAt")
    outcome: Outcome | None = None
    targets: list[str] = []
    all_targets: bool = True
    controller: str = ""
    revision: str = ""
    detail: str = ""


class _Document(Struct, rename="camel"):
    round_at: float | None = None
    trusted_since: float | None = None
    overloaded: dict[str, int] = {}
    moves: list[_Move] = []


_decoder = msgspec.json.Decoder(_Document)


@dataclass(frozen=True, slots=True)
class Memory:
    """What is kept.

    Attributes:
        round_at: when the last round began, seconds since the epoch; NaN before the first.
    """

    history: History = field(default_factory=History)
    round_at: float = math.nan


def encode_memory(memory: Memory) -> str:
    """Return the text; the oldest moves that have ended are left out where it would be too long."""
    overloaded = sorted(memory.history.overloaded.items(), key=lambda entry: (-entry[1], entry[0]))
    document = _Document(
        _finite(memory.round_at),
        _finite(memory.history.trusted_since),
        dict(overloaded[:_MOST_OVERLOADED]),
        [_encoded(move) for move in memory.history.moves],
    )
    text = msgspec.json.encode(document)
    while len(text) > MOST_BYTES and (ended := [move for move in document.moves if move.outcome is not None]):
        dropped = {id(move) for move in ended[: max(1, len(ended) // 4)]}
        document.moves = [move for move in document.moves if id(move) not in dropped]
        text = msgspec.json.encode(document)
    return text.decode()


def decode_memory(text: str) -> Memory:
    """Return what was kept.

    Raises:
        UnreadableMemory: it is not what `encode_memory` writes.
    """
    try:
        document = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableMemory(str(error)) from error
    times = [document.round_at or 0.0, document.trusted_since or 0.0, *_times(document)]
    if not all(map(math.isfinite, times)):
        raise UnreadableMemory("a time is no time")
    moves = tuple(_decoded(move) for move in document.moves)
    trusted = -math.inf if document.trusted_since is None else document.trusted_since
    history = History(overloaded=document.overloaded, moves=moves, trusted_since=trusted)
    return Memory(history, math.nan if document.round_at is None else document.round_at)


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _times(document: _Document) -> Iterator[float]:
    for move in document.moves:
        yield move.begun_at
        yield move.ended_at or 0.0


def _encoded(move: PastMove) -> _Move:
    named = move.targets[:_MOST_TARGETS]
    return _Move(
        _Workload(*move.workload),
        move.pod,
        move.uid,
        move.source,
        move.target,
        move.begun_at,
        _finite(move.ended_at),
        move.outcome,
        # Where it went no longer matters.
        list(named) if move.in_flight else [],
        move.all_targets and len(named) == len(move.targets),
        move.controller,
        move.revision,
        move.detail[:_MOST_DETAIL],
    )


def _decoded(move: _Move) -> PastMove:
    workload = (move.workload.kind, move.workload.namespace, move.workload.name)
    past = PastMove(workload, move.pod, move.uid, move.source, move.target, move.begun_at)
    return replace(
        past,
        # One that has ended at an unknown time has ended now as far as anybody knows: when it was begun, at least.
        ended_at=math.nan if move.outcome is None else move.begun_at if move.ended_at is None else move.ended_at,
        outcome=move.outcome,
        targets=tuple(move.targets),
        all_targets=move.all_targets,
        controller=move.controller,
        revision=move.revision,
        detail=move.detail,
    )
