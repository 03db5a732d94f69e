"""Why a pod fits nowhere: who rejected which node, and the message upstream would write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from msgspec import Struct, field

from scheduler.framework.status import Code, CodeArray, IntArray, RowArray, Status, Verdicts
from scheduler.framework.view import NodeView

NO_NODES = "no nodes available to schedule pods"


class Rejection(Struct):
    """One filter's rejections: a code and a set of reasons per row; `describe` and `detail` as in `Verdicts`."""

    plugin: str
    rows: RowArray
    codes: CodeArray
    bits: IntArray
    reasons: tuple[str, ...]
    describe: Callable[[int], tuple[str, ...]] | None = None
    detail: Callable[[int], str] | None = None

    @classmethod
    def of(cls, plugin: str, rows: RowArray, verdicts: Verdicts, rejected: RowArray) -> Rejection:
        """Return what a plugin's verdicts on some rows say about those of them at the positions `rejected`."""
        describe, detail = verdicts.describe, verdicts.detail
        return cls(
            plugin,
            rows[rejected],
            verdicts.codes[rejected],
            verdicts.bits[rejected],
            verdicts.reasons,
            None if describe is None else lambda index: describe(int(rejected[index])),
            None if detail is None else lambda index: detail(int(rejected[index])),
        )

    def only(self, rows: RowArray) -> Rejection:
        """Return the rejections of these rows."""
        kept = np.flatnonzero(np.isin(self.rows, rows))
        return Rejection.of(self.plugin, self.rows, self._verdicts(), kept)

    def status(self, index: int) -> Status:
        """Return the answer for `rows[index]`."""
        return self._verdicts().status(index, self.plugin)

    def _verdicts(self) -> Verdicts:
        return Verdicts(self.codes, self.bits, self.reasons, self.describe, self.detail)

    def histogram(self) -> Counter[str]:
        """Return reason -> number of nodes; a node with several reasons counts under each."""
        counts: Counter[str] = Counter()
        values, numbers = np.unique(self.bits, return_counts=True)
        for bits, number in zip(values.tolist(), numbers.tolist(), strict=True):
            for bit, reason in enumerate(self.reasons):
                if bits >> bit & 1:
                    counts[reason] += number
        return counts


class Diagnosis(Struct):
    """Why no node was feasible in one attempt (Diagnosis of kube-scheduler).

    Rejections stay as columns until a caller asks for the message or for one node's status: most attempts that fail are
    repeated with the same result, and need only the histogram.

    Attributes:
        total: nodes there are.
        rejections: per filter, in running order; a node is in at most one.
        pre_filter: the PreFilter rejection that stands for all nodes, if there was one.
        absent: nodes that PreFilter left out, and
        absent_plugins: the PreFilter plugins that left them out.
        taken_back: rejections that count no more, as their plugins stepped back (`YieldingFilter`).
    """

    total: int
    rejections: list[Rejection] = field(default_factory=list)
    pre_filter: Status | None = None
    absent: int = 0
    absent_plugins: tuple[str, ...] = ()
    taken_back: tuple[Rejection, ...] = ()

    @property
    def absent_status(self) -> Status | None:
        """Return the status of the nodes that PreFilter left out; None where it left out none."""
        if not self.absent_plugins:
            return None
        names = " ".join(self.absent_plugins)
        reason = f"node(s) didn't satisfy plugin(s) [{names}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), self.absent_plugins[0])

    def histogram(self) -> dict[str, int]:
        """Return reason -> number of nodes; a node with several reasons counts under each."""
        counts: Counter[str] = Counter()
        for rejection in self.rejections:
            counts.update(rejection.histogram())
        absent = self.absent_status
        if self.absent and absent is not None:
            counts[absent.message] += self.absent
        return dict(counts)

    def rejectors(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return (plugins that rejected, those of them whose rejection is Pending)."""
        if self.pre_filter is not None:
            names = frozenset({self.pre_filter.plugin} - {""})
            return names, names if self.pre_filter.code is Code.PENDING else frozenset()
        everyone = frozenset(rejection.plugin for rejection in self.rejections)
        if self.absent:
            everyone |= frozenset(self.absent_plugins)
        pending = frozenset(
            rejection.plugin for rejection in self.rejections if (rejection.codes == Code.PENDING).any()
        )
        return everyone, pending

    def remark(self) -> str:
        """Return which plugins stepped back, and from what; "" where none did."""
        return "; ".join(
            f"{rejection.plugin} stepped back, as no other node was left: {count} {reason}"
            for rejection in self.taken_back
            for reason, count in sorted(rejection.histogram().items())
        )

    def message(self, post_filter: str = "") -> str:
        """Return the FailedScheduling text (FitError.Error of kube-scheduler 1.34); `post_filter` is what PostFilter
        added."""
        if self.pre_filter is not None:
            text = f"0/{self.total} nodes are available: {self.pre_filter.message}."
        else:
            text = unavailable(self.total, self.histogram())
        return f"{text} {post_filter}" if post_filter else text


def unavailable(total: int, histogram: Mapping[str, int]) -> str:
    """Return the text for a pod that fits on none of `total` nodes, for so many nodes per reason; sorted as text is,
    "10" before "2"."""
    reasons = sorted(f"{count} {reason}" for reason, count in histogram.items())
    return f"0/{total} nodes are available:" + (f" {', '.join(reasons)}." if reasons else "")


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
