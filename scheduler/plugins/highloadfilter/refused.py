"""Which nodes were refused to which class of pods, so that a load that admits one of them is an event for its pods."""

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from scheduler.framework import BoolArray, NodeView, RowArray

_BYTES = 4 << 20
_FEWEST_CLASSES = 64


class RefusedNodes:
    """By class of pods, the rows refused since the load was last read. Only the classes last seen are remembered."""

    def __init__(self) -> None:
        self._rows: OrderedDict[bytes, BoolArray] = OrderedDict()
        self._versions: dict[bytes, int] = {}
        self._membership = -1
        self._answers: dict[bytes, bool] = {}
        self._answered_for: tuple[object, float] = (None, 0.0)

    def add(self, key: bytes, view: NodeView, version: int, rows: RowArray) -> None:
        """Note that rows are refused to a class by one answer of the load source, the version."""
        if view.membership != self._membership:
            self._rows.clear()
            self._versions.clear()
            self._membership = view.membership
        refused = self._rows.get(key)
        if refused is None or self._versions[key] != version or len(refused) != view.size:
            refused = self._rows[key] = np.zeros(view.size, dtype=np.bool_)
            self._versions[key] = version
        refused[rows] = True
        self._rows.move_to_end(key)
        while len(self._rows) > max(_FEWEST_CLASSES, _BYTES // max(view.size, 1)):
            oldest, _ = self._rows.popitem(last=False)
            del self._versions[oldest]

    def may_pass(self, key: bytes, view: NodeView, any_passes: Callable[[RowArray], bool]) -> bool:
        """Return whether a row that was refused to a class passes now; True where that is not known.

        A class is looked at once per view, however many of its pods wait.
        """
        if self._answered_for[0] is not view:
            self._answers.clear()
            self._answered_for = (view, view.now)
        answer = self._answers.get(key)
        if answer is None:
            refused = self._rows.get(key)
            known = refused is not None and view.membership == self._membership and len(refused) == view.size
            answer = not known or refused is None or any_passes(np.flatnonzero(refused))
            self._answers[key] = answer
        return answer
