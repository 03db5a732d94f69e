"""Pods per domain for several topology keys, changed for what-if runs without touching the state's own counts."""

import numpy as np

from scheduler.framework import BoolArray, IntArray, NodeView, RowArray, gather_codes


class DomainCounts:
    """By topology key: a count per domain code and, last, a 0 for nodes without the label."""

    __slots__ = ("_owned", "by_key")

    def __init__(self) -> None:
        self.by_key: dict[str, IntArray] = {}
        self._owned: set[str] = set()

    @property
    def empty(self) -> bool:
        """Whether no domain has any."""
        return not any(counts.any() for counts in self.by_key.values())

    def take(self, key: str, counts: IntArray) -> None:
        """Add counts of the state; the array is not changed."""
        known = self.by_key.get(key)
        if known is None:
            self.by_key[key] = counts
        else:
            self.by_key[key] = known + counts
            self._owned.add(key)

    def add(self, view: NodeView, key: str, row: int, amount: int) -> None:
        """Add to the domain of a row; a node without the label is in none."""
        column = view.labels(key)
        code = column.codes[row]
        if code < 0:
            return
        if key not in self._owned:
            known = self.by_key.get(key)
            self.by_key[key] = np.zeros(len(column.values) + 1, dtype=np.int64) if known is None else known.copy()
            self._owned.add(key)
        self.by_key[key][code] += amount

    def rows_near_matches(self, view: NodeView, rows: RowArray) -> BoolArray | None:
        """Return the rows with a domain that has some; None where there is none."""
        failed: BoolArray | None = None
        for key, counts in self.by_key.items():
            occupied = counts > 0
            if not occupied.any():
                continue
            in_occupied = occupied.take(gather_codes(view, view.labels(key).codes, rows), mode="wrap")
            failed = in_occupied if failed is None else failed | in_occupied
        return failed if failed is not None and failed.any() else None

    def clone(self) -> "DomainCounts":
        """Return an independent copy; arrays are copied when either side first changes them."""
        twin = DomainCounts()
        twin.by_key = dict(self.by_key)
        self._owned.clear()
        return twin
