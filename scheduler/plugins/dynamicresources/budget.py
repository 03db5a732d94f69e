"""How much work one attempt at a pod's claims may be.

Upstream stops each node's search after `filterTimeout`. A decision here has no clock: the same snapshot gives the same
answer on every machine. So steps are counted, of the search and of selectors, over all nodes of an attempt. What
selectors remember stays, so that the next attempt gets further.
"""

from __future__ import annotations

from scheduler.framework import Work

MAX_STEPS = 1_000_000
"""Steps of an attempt, 0.5 to 2 us each."""

_STEPS_PER_UNIT = 2

TIMED_OUT = "timed out trying to allocate devices"


class OutOfBudget(Exception):
    """The attempt has been too much work."""


class Budget:
    """Counts the steps of one attempt."""

    __slots__ = ("_left", "_uncharged")

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps
        self._uncharged = 0

    def spend(self, steps: int = 1) -> None:
        """Account for work.

        Raises:
            OutOfBudget: there is no more.
        """
        self._left -= steps
        self._uncharged += steps
        if self._left < 0:
            raise OutOfBudget

    def charge(self, work: Work) -> None:
        """Tell the meter of the attempt what steps there were since the last call.

        A pod alone is kept within its steps by this budget, which gives every node an answer; a thousand members of a
        gang are kept within theirs by the meter.

        Raises:
            OverBudgetError: the attempt ends.
        """
        steps, self._uncharged = self._uncharged, 0
        work.charge(steps // _STEPS_PER_UNIT, "steps of the search for devices and of their selectors")
