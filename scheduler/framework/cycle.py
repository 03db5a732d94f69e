"""Scratch state of one scheduling attempt."""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from scheduler.framework.clocks import AttemptTiming

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
    """Counts the units of one attempt; of all members, where it is one at a gang.

    Attributes:
        limit: `ATTEMPT_UNITS`, if not said otherwise.
        done: units so far.
        turn_is_over: tells an attempt that may be interrupted when others should be decided; None where it may not.
    """

    __slots__ = ("_charged", "done", "limit", "turn_is_over")

    def __init__(self, limit: int | None = None, turn_is_over: Callable[[], bool] | None = None) -> None:
        self.limit = ATTEMPT_UNITS if limit is None else limit
        self.turn_is_over = turn_is_over
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


T = TypeVar("T")

PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"
"""Key of `CycleState` under which a plugin asks for other pods to be tried at once: {UID: pod}."""
PREEMPTION_ATTEMPTS = "preemption_attempts"
"""Counter of `CycleState`: how often PostFilter looked for pods to preempt."""

OVER_BUDGET = "over_budget"
"""Counters of `CycleState` begin with it that say for which plugin an attempt was too much work:
`over_budget/<plugin>`."""


class RandomSource(Protocol):
    """Where chance comes from: the engine passes `random.Random` in, so that the same seed gives the same decision."""

    def random(self) -> float:
        """Return the next number, uniform in [0, 1)."""


class _FirstOfEquals:
    """Chance for a state that nothing is chosen with: the first of equals."""

    def random(self) -> float:
        return 0.0


FIRST_OF_EQUALS = _FirstOfEquals()


class CycleState:
    """What plugins keep for one attempt at one pod.

    It is what makes plugins free of per-pod state of their own: an attempt that is given up leaves nothing behind, and
    a what-if run works on a clone. It goes from PreFilter to PostBind, so Reserve finds what PreFilter computed.

    Attributes:
        skip_filter: plugins whose PreFilter said Skip: their Filter is not called.
        skip_score: plugins whose PreScore said Skip: their Score is not called.
        counters: observations that a wrapper turns into metrics, such as scores that had to be clamped.
        rng: the scheduler's generator, for a plugin that chooses among equals.
        timing: measures the attempt; None for a what-if run and wherever nobody asks.
        work: what the attempt has been so far; a plugin charges before it walks through long lists.
    """

    __slots__ = ("_data", "counters", "rng", "skip_filter", "skip_score", "timing", "work")

    def __init__(
        self,
        rng: RandomSource = FIRST_OF_EQUALS,
        timing: AttemptTiming | None = None,
        work: Work | None = None,
    ) -> None:
        self.rng = rng
        self.timing = timing
        self.work = Work() if work is None else work
        self._data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.counters: dict[str, int] = {}

    def write(self, key: str, value: Any) -> None:
        """Keep a value; plugins use their own name as key."""
        self._data[key] = value

    def read(self, key: str, kind: type[T]) -> T | None:
        """Return the value kept under a key when it is of the kind asked for, else None."""
        value = self._data.get(key)
        return value if isinstance(value, kind) else None

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter.

        Plugins have no metrics of their own: importing the registry would tie them to the process, and would count
        what-if runs too. The engine turns the counters of real attempts into metrics.
        """
        if number:
            self.counters[name] = self.counters.get(name, 0) + number

    def clone(self, copy_value: Callable[[Any], Any] = lambda value: value) -> "CycleState":
        """Return a copy for a what-if run, whose work counts for the attempt; values with a `clone` method are cloned,
        others go through `copy_value`."""
        twin = CycleState(self.rng, work=self.work)
        twin._data = {
            key: value.clone() if hasattr(value, "clone") else copy_value(value) for key, value in self._data.items()
        }
        twin.skip_filter = set(self.skip_filter)
        twin.skip_score = set(self.skip_score)
        return twin
