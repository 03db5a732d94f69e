"""What happened before: rounds in which a node was overloaded, moves and how they ended. A value, never changed.

Who runs the rebalancer keeps it over a restart; a plan on a snapshot has none, and `known` says so.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from scheduler.framework import PodInfo

ROUNDS_TO_STOP = 3
"""So many moves in a row that did not land where they were to: the prediction is wrong, somebody must look."""
_EVICTED = "DisruptionTarget"
_BY_API = "EvictionByEvictionAPI"
_MOST_MOVES = 1000


class Outcome(enum.StrEnum):
    """How a move ended."""

    LANDED = "landed"
    ELSEWHERE = "elsewhere"
    BACK = "back"
    REFUSED = "refused"
    EXPIRED = "expired"

    @property
    def missed(self) -> bool:
        """Whether the replacement is on another node than was planned."""
        return self in (Outcome.ELSEWHERE, Outcome.BACK)


@dataclass(frozen=True, slots=True)
class PastMove:
    """A move that was begun. Times are seconds since the epoch; `ended_at` is NaN while it is in flight."""

    workload: tuple[str, str, str]
    pod: str
    uid: str
    source: str
    target: str
    begun_at: float
    ended_at: float = math.nan
    outcome: Outcome | None = None

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
    """

    known: bool = True
    overloaded: Mapping[str, int] = field(default_factory=dict)
    moves: tuple[PastMove, ...] = ()

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
        return replace(self, moves=(*self.moves, move)[-_MOST_MOVES:])

    def with_outcome(self, uid: str, outcome: Outcome, at: float) -> History:
        """Return the history once the move of a pod has ended."""
        ended = (
            replace(move, outcome=outcome, ended_at=at) if move.uid == uid and move.in_flight else move
            for move in self.moves
        )
        return replace(self, moves=tuple(ended))

    def since(self, seconds: float, now: float) -> Iterator[PastMove]:
        """Yield the moves that were begun at most so long ago."""
        return (move for move in self.moves if now - move.begun_at <= seconds)

    def missed_in_a_row(self) -> int:
        """Return how many of the last moves with a place landed on another node than was planned."""
        count = 0
        for move in sorted(self.moves, key=lambda move: move.ended_at, reverse=True):
            if move.outcome in (None, Outcome.REFUSED, Outcome.EXPIRED):
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
