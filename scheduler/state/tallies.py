"""One number per node, kept sparse, and its sums per topology domain, kept up to date as pods come and go.

Sparse, as a deployment's pods are on a few of 5,000 nodes, and there may be thousands of deployments. The sums are live
arrays: each pod that comes or goes adds to one entry of each, where upstream counts all pods of all nodes per attempt.
"""

from collections.abc import Hashable

import numpy as np

from scheduler.framework import IntArray, NodeSet, RowArray

_MAX_SUMS = 1024
"""Domain sums kept at once in one `SumPool`: 40 KB each for host names of 5,000 nodes."""


class _TallySums:
    """Sums of one tally per domain of one key, on one set of nodes."""

    __slots__ = ("codes", "counts", "nodes", "topology")

    def __init__(self, codes: RowArray, domains: int, nodes: NodeSet | None, topology: int) -> None:
        # Code -1, "no such label", picks the last entry, which therefore must stay 0.
        self.counts: IntArray = np.zeros(domains + 1, dtype=np.int64)
        self.codes = codes
        self.nodes = nodes
        self.topology = topology

    def add(self, row: int, amount: int) -> None:
        """Add to the domain of a row."""
        code = self.codes[row]
        if code >= 0 and (self.nodes is None or self.nodes.mask[row]):
            self.counts[code] += amount


class SumPool:
    """Counts the domain sums alive, and says when there are too many."""

    def __init__(self) -> None:
        self._users: dict[int, Tally] = {}
        self._alive = 0
        self._every_row: RowArray = np.zeros(0, dtype=np.intp)

    def every_row(self, size: int) -> RowArray:
        """Return 0..size-1, one array for all tallies."""
        if len(self._every_row) != size:
            self._every_row = np.arange(size, dtype=np.intp)
        return self._every_row

    def enter(self, tally: "Tally") -> None:
        """Note that a tally gets another sum; all are dropped when that makes too many."""
        if self._alive >= _MAX_SUMS:
            for user in self._users.values():
                user.forget_sums()
            self._users.clear()
            self._alive = 0
        self._users[id(tally)] = tally
        self._alive += 1

    def leave(self, tally: "Tally", sums: int) -> None:
        """Note that a tally has dropped its sums by itself."""
        if self._users.pop(id(tally), None) is not None:
            self._alive -= sums


class Tally:
    """Number of pods of some kind per row; rows with none have no entry."""

    __slots__ = ("_pool", "_sums", "rows", "total")

    def __init__(self, pool: SumPool) -> None:
        self.rows: dict[int, int] = {}
        self.total = 0
        self._sums: dict[Hashable, _TallySums] = {}
        self._pool = pool

    def add(self, row: int, amount: int, topology: int) -> None:
        """Add to a row; `topology` is the table's number at this moment."""
        count = self.rows.get(row, 0) + amount
        self.total += amount
        if count:
            self.rows[row] = count
        else:
            self.rows.pop(row, None)
            if not self.rows:
                # Most never count again: their deployment is gone. An emptied dictionary keeps the room it once needed.
                self.rows = {}
                self._pool.leave(self, len(self._sums))
                self.forget_sums()
        for sums in self._sums.values():
            # Those of an older topology are built again when asked for.
            if sums.topology == topology:
                sums.add(row, amount)

    def by_domain(self, key: str, codes: RowArray, domains: int, nodes: NodeSet | None, topology: int) -> IntArray:
        """Return the sums per code, and a last entry 0. The array is live: read it, do not keep it."""
        token = (key, None if nodes is None else nodes.token)
        sums = self._sums.get(token)
        if sums is None or sums.topology != topology:
            if sums is None:
                self._pool.enter(self)
            sums = self._sums[token] = self._summed(codes, domains, nodes, topology)
        return sums.counts

    def by_row(self, size: int, topology: int) -> IntArray:
        """Return the tally as a column. The array is live: read it, do not keep it."""
        # Every row is a domain of its own.
        return self.by_domain("", self._pool.every_row(size), size, None, topology)[:size]

    def forget_all(self) -> None:
        """Drop everything, and give up the place in the pool."""
        self._pool.leave(self, len(self._sums))
        self.forget_sums()
        self.rows = {}
        self.total = 0

    def forget_sums(self) -> None:
        """Drop the sums; they are built again when asked for."""
        self._sums.clear()

    def _arrays(self) -> tuple[RowArray, IntArray]:
        number = len(self.rows)
        rows = np.fromiter(self.rows.keys(), dtype=np.intp, count=number)
        return rows, np.fromiter(self.rows.values(), dtype=np.int64, count=number)

    def _summed(self, codes: RowArray, domains: int, nodes: NodeSet | None, topology: int) -> _TallySums:
        sums = _TallySums(codes, domains, nodes, topology)
        if self.rows:
            rows, counts = self._arrays()
            inside = codes[rows] >= 0
            if nodes is not None:
                inside &= nodes.mask[rows]
            np.add.at(sums.counts, codes[rows[inside]], counts[inside])
        return sums
