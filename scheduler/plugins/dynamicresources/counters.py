"""Counters that devices of a pool share: partitions of one GPU, for example, that together cannot be more than it is.

A pool has sets of counters, and a device takes something of some of them while it is allocated
(k8s.io/dynamic-resource-allocation/structured/internal/incubating, 0.36.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.kube.model import CounterConsumption, CounterSet
from scheduler.plugins.dynamicresources.amounts import billionths

CounterID = tuple[str, str]
"""Set and counter."""


def counter_sets(sources: Iterable[Sequence[CounterSet]]) -> Mapping[str, Mapping[str, int]] | None:
    """Return a pool's sets, amounts in billionths; None where a name is there twice."""
    sets: dict[str, Mapping[str, int]] = {}
    for source in sources:
        for each in source:
            if each.name in sets:
                return None
            sets[each.name] = {name: billionths(counter.value) for name, counter in each.counters.items()}
    return sets


def are_known(consumed: Iterable[CounterConsumption], sets: Mapping[str, Mapping[str, int]]) -> bool:
    """Tell whether a pool has all counters that a device takes something of."""
    return all(each.counter_set in sets and each.counters.keys() <= sets[each.counter_set].keys() for each in consumed)


class Counters:
    """What is left of a pool's counters in one search."""

    def __init__(
        self, sets: Mapping[str, Mapping[str, int]], allocated: Iterable[Sequence[CounterConsumption]]
    ) -> None:
        self._left: dict[CounterID, int] = {
            (name, counter): amount for name, counters in sets.items() for counter, amount in counters.items()
        }
        for consumed in allocated:
            self._change(consumed, -1)

    def take(self, consumed: Sequence[CounterConsumption]) -> bool:
        """Take what a device needs; False, and nothing is taken, where the pool does not have it."""
        self._change(consumed, -1)
        # All of them, as upstream: where others have been given too much, nothing more is given.
        if min(self._left.values(), default=0) < 0:
            self._change(consumed, 1)
            return False
        return True

    def give_back(self, consumed: Sequence[CounterConsumption]) -> None:
        """Undo `take`."""
        self._change(consumed, 1)

    def _change(self, consumed: Sequence[CounterConsumption], sign: int) -> None:
        for each in consumed:
            for name, counter in each.counters.items():
                key = (each.counter_set, name)
                if key in self._left:
                    self._left[key] += sign * billionths(counter.value)
