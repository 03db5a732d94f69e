"""How much work one attempt at a pod's claims may be.

Upstream stops each node's search after `filterTimeout`. A decision here has no clock: the same snapshot gives the same
answer on every machine. So steps are counted, of the search and of selectors, over all nodes of an attempt. What
selectors remember stays, so that the next attempt gets further.
"""

from __future__ import annotations

MAX_STEPS = 1_000_000
"""Steps of an attempt, 0.5 to 2 us each."""

TIMED_OUT = "timed out trying to allocate devices"


class OutOfBudget(Exception):
    """The attempt has been too much work."""


class Budget:
    """Counts the steps of one attempt."""

    __slots__ = ("_left",)

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        """Account for work.

        Raises:
            OutOfBudget: there is no more.
        """
        self._left -= steps
        if self._left < 0:
            raise OutOfBudget
