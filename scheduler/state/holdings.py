"""The pods on nodes by what they hold (host ports, exclusive volumes), so that a plugin looks at the few that may be in
a pod's way.

An index and not a column: most pods hold nothing, and of those that do, each key is held by a few.
"""

from collections.abc import Collection, Iterable

import numpy as np

from scheduler.framework import Holder, IntArray, PodInfo
from scheduler.state.columns import grown


class Holdings:
    """Pods by key of `SpecInfo.holds`, and how many volumes that may have to be attached there are per row."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[str, Holder]] = {}
        self._attachable: IntArray = np.zeros(0, dtype=np.int64)

    def add(self, row: int, pod: PodInfo, sign: int) -> None:
        """Take a pod in that came onto a row (+1), or drop it (-1)."""
        for key in pod.spec.holds:
            if sign > 0:
                self._holders.setdefault(key, {})[pod.uid] = Holder(row, pod)
                continue
            holders = self._holders.get(key, {})
            holders.pop(pod.uid, None)
            if not holders:
                self._holders.pop(key, None)
        if pod.spec.attachable:
            if row >= len(self._attachable):
                self._attachable = grown(self._attachable, 2 * row + 64)
            self._attachable[row] += sign * pod.spec.attachable

    def of(self, key: str) -> Collection[Holder]:
        """Return the pods that hold something."""
        return self._holders.get(key, {}).values()

    def attachable(self, size: int) -> IntArray:
        """Return how many volumes of pods on each row may have to be attached."""
        if size > len(self._attachable):
            self._attachable = grown(self._attachable, size)
        return self._attachable[:size]


def moved_holders(base: Collection[Holder], key: str, moves: Iterable[tuple[int, PodInfo, int]]) -> Collection[Holder]:
    """Return the holders after some pods were added and removed."""
    changed = [(row, pod, sign) for row, pod, sign in moves if key in pod.spec.holds]
    if not changed:
        return base
    holders = {holder.pod.uid: holder for holder in base}
    for row, pod, sign in changed:
        if sign > 0:
            holders[pod.uid] = Holder(row, pod)
        else:
            holders.pop(pod.uid, None)
    return holders.values()
