"""The meter of an attempt: how much work it has been, in units that follow from the snapshot and never in seconds.

Whoever may create objects may make lists of tens of thousands (1.5 MB, etcd's limit), and one thread decides about all
pods. Plugins are written so that a long list costs what it has to; the meter is the last resort where even that would
stop the scheduler for seconds. Upstream has none.

A unit is about 1 us of ordinary work in Python. A plugin charges before it works, once per call or pass over an array,
with what the work is at most: a charge must not depend on what a cache holds, nor on which rows are left, so that the
same snapshot gives up on the same pod whether a fast path is taken or not. What a pod lists that lists few things is
within every bound and is not charged for: ordinary attempts are free of all this.
"""

from collections.abc import Hashable

ATTEMPT_UNITS = 1_000_000
"""What an attempt at one pod may be, its preemption included: a second; the watchdog of /livez waits for 60. Real
workloads stay below a hundredth of it."""
GANG_UNITS = 5 * ATTEMPT_UNITS
"""What an attempt at all members of a gang may be."""


class OverBudgetError(Exception):
    """An attempt is more work than it may be.

    Attributes:
        units: what it would have been with the next step.
        walked: what this step would have walked through, as a product such as `claims x volumes`.
        plugin: whose step it is; the runner fills it in where the plugin did not.
    """

    def __init__(self, units: int, limit: int, walked: str) -> None:
        super().__init__(units, limit, walked)
        self.units = units
        self.limit = limit
        self.walked = walked
        self.plugin = ""

    def __str__(self) -> str:
        """Say what is too much, and what to do."""
        subject = f"the pod is too much work for plugin {self.plugin}" if self.plugin else "the attempt is too much"
        return (
            f"{subject}: {self.units} units ({self.walked}), at most {self.limit} are done in one attempt; list fewer"
            " in the pod's spec and in the objects that it uses"
        )


class Work:
    """Counts the units of one attempt; of all members, where it is one at a gang."""

    __slots__ = ("_charged", "done", "limit")

    def __init__(self, limit: int | None = None) -> None:
        """`limit`: `ATTEMPT_UNITS`, if not said otherwise."""
        self.limit = ATTEMPT_UNITS if limit is None else limit
        self.done = 0
        self._charged: set[Hashable] | None = None

    def charge(self, units: int, walked: str) -> None:
        """Account for work that is about to be done.

        Args:
            units: about a microsecond each.
            walked: what is walked through, as a product such as `claims x volumes`.

        Raises:
            OverBudgetError: the attempt ends.
        """
        self.done += units
        if self.done > self.limit:
            raise OverBudgetError(self.done, self.limit, walked)

    def save(self) -> "Work":
        """Return a copy, for `restore`."""
        copy = Work(self.limit)
        copy.restore(self)
        return copy

    def restore(self, saved: "Work") -> None:
        """Take back what was charged since a copy was made, before it is done again in another way."""
        self.done = saved.done
        self._charged = None if saved._charged is None else set(saved._charged)

    def charge_once(self, key: Hashable, units: int, walked: str) -> None:
        """Account for work whose result is kept, so that the members of a gang share it: `key` is what it is kept by.

        Raises:
            OverBudgetError: the attempt ends.
        """
        if self._charged is None:
            self._charged = set()
        if key not in self._charged:
            self._charged.add(key)
            self.charge(units, walked)
