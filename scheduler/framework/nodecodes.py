"""The status code of every node after Filter: what PostFilter starts from."""

from collections.abc import Iterator, Mapping

from scheduler.framework.status import Code, CodeArray, RowArray
from scheduler.framework.view import NodeView


class NodeCodes(Mapping[str, int]):
    """Codes by node name; `rows` finds the nodes with one code without looking at each."""

    def __init__(self, view: NodeView, codes: CodeArray) -> None:
        """`codes` has an entry per row of the view."""
        self._view = view
        self._codes = codes

    def rows(self, code: Code) -> RowArray:
        """Return the rows of the nodes with a code, ascending."""
        rows = self._view.rows
        matching: RowArray = rows[self._codes[rows] == code]
        return matching

    def __getitem__(self, name: str) -> int:
        row = self._view.row(name)
        if row < 0:
            raise KeyError(name)
        return int(self._codes[row])

    def __iter__(self) -> Iterator[str]:
        return (self._view.name(row) for row in self._view.rows.tolist())

    def __len__(self) -> int:
        return len(self._view.rows)
