"""What happened before: rounds in which a node was overloaded, moves and how they ended. A value, never changed.

Who runs the rebalancer keeps it over a restart; a plan on a snapshot has none, and `known` says so.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec
from msgspec import Struct

from scheduler.framework import PodInfo

ROUNDS_TO_STOP = 3
"""So many moves in a row that did not land where they were to: the prediction is wrong, somebody must look."""
_EVICTED = "DisruptionTarget"
_BY_API = "EvictionByEvictionAPI"
_MAX_MOVES = 1000


class MoveOutcome(enum.StrEnum):
    """How a move ended."""

    LANDED = "landed"
    ELSEWHERE = "elsewhere"
    BACK = "back"
    REFUSED = "refused"
    EXPIRED = "expired"

    @property
    def missed(self) -> bool:
        """Whether the replacement is on another node than was planned."""
        return self in (MoveOutcome.ELSEWHERE, MoveOutcome.BACK)


@dataclass(frozen=True, slots=True)
class PastMove:
    """A move that was begun. Times are seconds since the epoch; `ended_at` is NaN while it is in flight.

    Attributes:
        targets: all nodes that the scheduler may choose among, as they are equally good; `target` is one of them.
        all_targets: `targets` names all of them; else any node but the first one may be one.
        controller: UID of the controller that makes the replacement.
        revision: of the pod's template; the replacement has the same.
        detail: what the API server said, in words.
    """

    workload: tuple[str, str, str]
    pod: str
    uid: str
    source: str
    target: str
    begun_at: float
    ended_at: float = math.nan
    outcome: MoveOutcome | None = None
    targets: tuple[str, ...] = ()
    all_targets: bool = True
    controller: str = ""
    revision: str = ""
    detail: str = ""

    @property
    def in_flight(self) -> bool:
        """Whether the replacement has not been placed yet."""
        return self.outcome is None


@dataclass(frozen=True, slots=True)
class History:
    """What a round has to know of the rounds before it.

    Attributes:
        known: whether anything was kept; else nothing is refused for what may have been before.
        overloaded: rounds in a row in which a node was above its threshold, this one included.
        moves: oldest first.
        trusted_since: moves that ended before say nothing about predictions any more: somebody has looked. Seconds
            since the epoch.
    """

    known: bool = True
    overloaded: Mapping[str, int] = field(default_factory=dict)
    moves: tuple[PastMove, ...] = ()
    trusted_since: float = -math.inf

    @classmethod
    def unknown(cls) -> History:
        """Return the history of somebody who has just come."""
        return cls(known=False)

    def after_round(self, overloaded: Collection[str]) -> History:
        """Return the history once a round has judged all nodes."""
        counts = {name: self.overloaded.get(name, 0) + 1 for name in overloaded}
        return replace(self, overloaded=counts)

    def with_move(self, move: PastMove) -> History:
        """Return the history with a move that begins."""
        return replace(self, moves=(*self.moves, move)[-_MAX_MOVES:])

    def with_outcome(self, uid: str, outcome: MoveOutcome, at: float, detail: str = "") -> History:
        """Return the history once the move of a pod has ended; `detail` says why, in words."""
        ended = (
            replace(move, outcome=outcome, ended_at=at, detail=detail or move.detail)
            if move.uid == uid and move.in_flight
            else move
            for move in self.moves
        )
        return replace(self, moves=tuple(ended))

    def with_detail(self, uid: str, detail: str) -> History:
        """Return the history with what the API server said of a move in flight."""
        moves = (replace(move, detail=detail) if move.uid == uid and move.in_flight else move for move in self.moves)
        return replace(self, moves=tuple(moves))

    def interrupted(self) -> History:
        """Return the history after a pause: what was overloaded before it is not known to have been so all the time."""
        return replace(self, overloaded={})

    @property
    def in_flight(self) -> tuple[PastMove, ...]:
        """The moves whose end is not known yet."""
        return tuple(move for move in self.moves if move.in_flight)

    def since(self, seconds: float, now: float) -> Iterator[PastMove]:
        """Yield the moves that were begun less than so long ago."""
        return (move for move in self.moves if now - move.begun_at < seconds)

    def missed_in_a_row(self) -> int:
        """Return how many of the last moves with a place landed on another node than was planned."""
        count = 0
        for move in sorted(self.moves, key=lambda move: move.ended_at, reverse=True):
            if move.outcome in (None, MoveOutcome.REFUSED, MoveOutcome.EXPIRED) or move.ended_at <= self.trusted_since:
                continue
            if not move.outcome.missed:
                break
            count += 1
        return count

    def cooldown_end(
        self, workload: tuple[str, str, str], *, first: float, longest: float, window: float, now: float
    ) -> float:
        """Return until when a workload is left alone, seconds since the epoch; -inf if it is not.

        Args:
            workload: kind, namespace, name.
            first: seconds after a move that landed where it was to.
            longest: the most that doubling makes of it.
            window: seconds in which moves count that landed elsewhere.
            now: seconds since the epoch.
        """
        own = [move for move in self.since(window, now) if move.workload == workload]
        ended = [move.ended_at for move in own if not move.in_flight]
        if not ended:
            return -math.inf
        missed = sum(move.outcome is not None and move.outcome.missed for move in own)
        return max(ended) + min(longest, first * 2.0 ** min(missed, 62))


def was_evicted(pod: PodInfo) -> bool:
    """Tell whether a pod is on its way out by an eviction, whoever asked for it."""
    return any(
        condition.type == _EVICTED and condition.status == "True" and condition.reason == _BY_API
        for condition in pod.conditions
    )


MAX_BYTES = 400_000
"""Of the text; a ConfigMap holds a MiB, and the status is in it, too."""
_MAX_TARGETS = 10
_MAX_OVERLOADED = 1000
_MAX_DETAIL = 300


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
    outcome: MoveOutcome | None = None
    targets: list[str] = []
    all_targets: bool = True
    controller: str = ""
    revision: str = ""
    detail: str = ""


class _StoredHistory(Struct, rename="camel"):
    round_at: float | None = None
    trusted_since: float | None = None
    overloaded: dict[str, int] = {}
    moves: list[_Move] = []


_decoder = msgspec.json.Decoder(_StoredHistory)


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
    document = _StoredHistory(
        _finite(memory.round_at),
        _finite(memory.history.trusted_since),
        dict(overloaded[:_MAX_OVERLOADED]),
        [_encoded(move) for move in memory.history.moves],
    )
    text = msgspec.json.encode(document)
    while len(text) > MAX_BYTES and (ended := [move for move in document.moves if move.outcome is not None]):
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


def _times(document: _StoredHistory) -> Iterator[float]:
    for move in document.moves:
        yield move.begun_at
        yield move.ended_at or 0.0


def _encoded(move: PastMove) -> _Move:
    named = move.targets[:_MAX_TARGETS]
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
        move.detail[:_MAX_DETAIL],
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
