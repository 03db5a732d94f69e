"""Gangs whose members were too much work for one attempt: they are not tried again for each member that comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from scheduler.core import BUDGET_REJECTOR
from scheduler.engine.failures import UNSCHEDULABLE, AttemptFailure
from scheduler.framework import Gang, MonotonicSeconds
from scheduler.state import QueuedPod

_SECONDS: Final = 240
"""Less than the five minutes after which members come back whom no event wakes."""


class _GivenUp(NamedTuple):
    until: MonotonicSeconds
    members: int
    minimum: int
    message: str


class GivenUpGangs:
    """Remembers them for a while, as long as they have as many members and the same minimum."""

    def __init__(self, now: Callable[[], MonotonicSeconds]) -> None:
        self._now = now
        self._gangs: dict[str, _GivenUp] = {}

    def note(self, gang: Gang, members: int, message: str) -> None:
        """An attempt at a gang was given up."""
        now = self._now()
        self._gangs = {name: each for name, each in self._gangs.items() if each.until > now}
        self._gangs[gang.name] = _GivenUp(now + _SECONDS, members, gang.minimum, message)

    def message(self, gang: Gang, members: int) -> str | None:
        """Return what to tell the members of a gang where an attempt would be given up again; None where it may be
        made."""
        known = self._gangs.get(gang.name)
        if known is None or members < known.members or gang.minimum != known.minimum or self._now() >= known.until:
            return None
        return known.message


def over_budget(members: Sequence[QueuedPod], message: str) -> list[tuple[QueuedPod, AttemptFailure]]:
    """Return the failures of the members of a gang that was given up. No event wakes them: each that wakes one would
    have all of them tried again."""
    failure = AttemptFailure(message, UNSCHEDULABLE, frozenset({BUDGET_REJECTOR}))
    return [(queued, failure) for queued in members]
