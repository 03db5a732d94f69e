"""Outcomes as values: what a plugin answers for a pod, and for a pod on each of many nodes.

Expected outcomes are values and not exceptions, as upstream: a rejection is the ordinary result of a filter, and its
code and reasons decide what happens next. An exception is a bug or trouble, and becomes a `PluginError`.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
from msgspec import Struct

# As numpy.typing.NDArray has it: that module takes 50 ms to import.
_Shape = tuple[Any, ...]
AnyArray = np.ndarray[_Shape, np.dtype[Any]]
IntArray = np.ndarray[_Shape, np.dtype[np.int64]]
SmallIntArray = np.ndarray[_Shape, np.dtype[np.int16]]
RowArray = np.ndarray[_Shape, np.dtype[np.intp]]
FloatArray = np.ndarray[_Shape, np.dtype[np.float64]]
BoolArray = np.ndarray[_Shape, np.dtype[np.bool_]]
CodeArray = np.ndarray[_Shape, np.dtype[np.int8]]

MAX_REASONS = 63
"""Bits a verdict has for reasons; a plugin with more folds the rest into the last one. Not 64: int64 has a sign."""


class Code(IntEnum):
    """Upstream's status codes, with what the scheduler does next.

    SUCCESS and SKIP go on. UNSCHEDULABLE may be cured by preemption; UNSCHEDULABLE_AND_UNRESOLVABLE may not. WAIT
    (Permit only) holds the pod. PENDING waits for something outside and wakes without back-off. ERROR is a bug or
    I/O: retried with back-off.
    """

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6


REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status(Struct, frozen=True):
    """A plugin's answer for the pod as a whole, or for one node.

    `detail` is what `explain` adds to reasons whose words are upstream's, such as amounts.
    """

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    error: str = ""
    detail: str = ""

    @property
    def is_success(self) -> bool:
        """Tell whether the plugin lets the pod through."""
        return self.code is Code.SUCCESS

    @property
    def is_skip(self) -> bool:
        """Tell whether the plugin takes no part in this cycle."""
        return self.code is Code.SKIP

    @property
    def is_rejection(self) -> bool:
        """Tell whether the pod was rejected, as opposed to something having gone wrong."""
        return self.code in REJECTIONS

    @property
    def message(self) -> str:
        """Return the error text, then the reasons, joined as upstream joins them."""
        return ", ".join((self.error, *self.reasons) if self.error else self.reasons)

    def with_plugin(self, plugin: str) -> "Status":
        """Return the status under the name of the plugin that gave it; an earlier name stays."""
        return self if self.plugin else Status(self.code, self.reasons, plugin, self.error, self.detail)


class UnknownOutcome(Status, frozen=True):
    """An error of a write that may be carried out all the same: the answer was lost, or is not the API server's."""


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str, plugin: str = "", detail: str = "") -> Status:
    """Return a rejection that removing other pods may cure."""
    return Status(Code.UNSCHEDULABLE, reasons, plugin, detail=detail)


def unresolvable(*reasons: str, plugin: str = "") -> Status:
    """Return a rejection that removing other pods cannot cure."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, plugin)


def failure(error: str, plugin: str = "") -> Status:
    """Return an error."""
    return Status(Code.ERROR, (), plugin, error)


class Verdicts(Struct):
    """A filter's answers for the rows it was asked about, in their order.

    Upstream allocates a Status per rejected node. On 5,000 nodes that fit nowhere this would be 5,000 objects per
    filter, to be counted by reason for one message. Two small columns and a tuple of texts hold the same, and are
    counted by numpy (`Diagnosis.histogram`).

    Attributes:
        codes: a `Code` per row; 0 lets the node through.
        bits: a set of reasons per row: bit i stands for `reasons[i]`.
        reasons: texts, in the order in which one node's reasons are reported.
        describe: returns the reasons of one row, by its position, where they say more than the texts that stand for
            many rows, such as a number.
        detail: returns what `explain` adds to the reasons of one row, whose words are upstream's.
    """

    codes: CodeArray
    bits: IntArray
    reasons: tuple[str, ...]
    describe: Callable[[int], tuple[str, ...]] | None = None
    detail: Callable[[int], str] | None = None

    def status(self, index: int, plugin: str) -> Status:
        """Return one row's answer as a Status."""
        if self.describe is not None:
            return Status(Code(int(self.codes[index])), self.describe(index), plugin)
        bits = int(self.bits[index])
        reasons = tuple(reason for bit, reason in enumerate(self.reasons) if bits >> bit & 1)
        detail = "" if self.detail is None else self.detail(index)
        return Status(Code(int(self.codes[index])), reasons, plugin, detail=detail)


def reject(failed: BoolArray, code: Code, reason: str) -> Verdicts | None:
    """Return verdicts that reject the marked rows for one reason; None when no row is marked."""
    if not failed.any():
        return None
    return Verdicts(failed.astype(np.int8) * np.int8(code), failed.astype(np.int64), (reason,))
