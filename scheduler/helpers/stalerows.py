"""Which rows of a column that is kept between decisions have to be computed again."""

from __future__ import annotations

from collections.abc import Hashable

from scheduler.framework import NodeView


class StaleRows:
    """Follows the changes of nodes and their pods, for one column."""

    def __init__(self) -> None:
        self._version: Hashable = None
        self._generation = -1
        self._rows: set[int] = set()

    def take(self, view: NodeView, version: Hashable = None) -> tuple[bool, set[int]]:
        """Return whether the whole column begins again, and the rows to compute.

        Rows that a what-if view moves are left for a later view: what it shows of them is for this once.

        Args:
            view: what is decided on.
            version: of everything else that the column follows from.
        """
        moved = set(view.moved_rows)
        known = (view.membership, version)
        changed = view.changed_since(self._generation) if known == self._version else None
        if changed is None:
            self._rows = set(view.rows.tolist())
        else:
            self._rows.update(changed)
        self._version, self._generation = known, view.generation
        due = self._rows - moved
        self._rows &= moved
        return changed is None, due
