"""The plan of an operation and its result for each stack."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field

from scheduler.answers import Document
from secondary_scheduler.cli.errors import ExitCode

_SHOWN_OPERATIONS = ("create", "update", "replace", "delete", "import")


class Operation(enum.StrEnum):
    """What is done to every stack."""

    PREVIEW = "preview"
    UP = "up"
    REFRESH = "refresh"


@dataclass(frozen=True)
class FleetPlan:
    """What is done to every stack.

    Attributes:
        preview_only: of a refresh: show what it would find, and change no state.
        seconds: for a stack, the gate aside.
        cluster_seconds: in which its cluster must answer; None: the cluster is not checked.
        gate_seconds: in which the scheduler has to be healthy after an update; None: no gate.
    """

    operation: Operation
    preview_only: bool = False
    seconds: float = 900.0
    cluster_seconds: float | None = 10.0
    gate_seconds: float | None = 300.0

    @property
    def previews(self) -> bool:
        """Whether nothing is changed anywhere."""
        return self.operation is Operation.PREVIEW or self.preview_only


class StackOutcome(enum.StrEnum):
    """How it ended for one stack."""

    UNCHANGED = "unchanged"
    CHANGES = "changes"
    """A preview found changes."""
    DONE = "done"
    """The changes were made."""
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class ResourceChange(Struct, frozen=True):
    """One resource that is or would be changed; names of properties only, never their values."""

    operation: str
    type: str
    name: str
    properties: tuple[str, ...] = ()

    def line(self) -> str:
        """For people."""
        names = f" ({', '.join(self.properties)})" if self.properties else ""
        return f"{self.operation:7} {self.type} {self.name}{names}"


class GateCheck(Struct, frozen=True):
    """The result of one check of the health gate."""

    name: str = field(name="check")
    passed: bool
    detail: str = field(name="found")


class DriftKind(enum.StrEnum):
    """What happened to a field, an entry of a list, or the object."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    DELETED = "deleted"


class Drift(Struct, frozen=True):
    """One thing that is not as the stack left it.

    Attributes:
        object: kind and name, with the namespace if it has one.
        field: its path; empty if the object itself is gone.
        manager: who owns the field now, as the API server knows it.
        repair: the one command that puts the whole object back.
    """

    object: str
    field: str
    change: DriftKind
    manager: str
    repair: str

    def line(self) -> str:
        """For people."""
        field = f" {self.field}" if self.field else ""
        by = f" by {self.manager}" if self.manager else ""
        return f"{self.object}:{field} {self.change}{by}; repair: {self.repair}"


class StackResult(Struct, frozen=True):
    """What came of one stack.

    Attributes:
        seconds: from the stack's start to its end, the gate included; 0 if it was not started.
        reason: one line; may be empty.
        changes: how many resources by operation, without those that stay as they are.
        messages: lines printed by the program and its providers.
        outputs: of the stack, secret ones masked.
        drift: what somebody changed by hand; of a refresh that only previews.
    """

    stack: str
    wave: str
    cluster: str
    outcome: StackOutcome = field(name="result")
    seconds: float = 0.0
    reason: str = ""
    changes: Mapping[str, int] = {}
    resources: Sequence[ResourceChange] = ()
    messages: Sequence[str] = ()
    outputs: Mapping[str, Any] = {}
    gate: Sequence[GateCheck] = ()
    drift: Sequence[Drift] = ()

    @property
    def change_text(self) -> str:
        """The changes as text, the common operations first."""
        order = [*_SHOWN_OPERATIONS, *sorted(set(self.changes) - set(_SHOWN_OPERATIONS))]
        return ", ".join(f"{self.changes[name]} {name}" for name in order if self.changes.get(name))


class FleetResult(Document, frozen=True, kw_only=True):
    """What came of an operation, in the order of the waves."""

    operation: Operation
    stacks: Sequence[StackResult]


def exit_code(results: Sequence[StackResult], *, previewed: bool) -> ExitCode:
    """1 where any stack failed or was not reached, 3 where a preview found changes, else 0."""
    if any(result.outcome is StackOutcome.CANCELLED for result in results):
        return ExitCode.INTERRUPTED
    if any(result.outcome in (StackOutcome.FAILED, StackOutcome.SKIPPED) for result in results):
        return ExitCode.ERROR
    if previewed and any(result.outcome is StackOutcome.CHANGES for result in results):
        return ExitCode.DIFFERENCES
    return ExitCode.OK


def summary(operation: Operation, results: Sequence[StackResult]) -> str:
    """One line for all stacks, such as `Fleet preview: 3 stacks: 1 failed, 2 with changes`."""
    order = (
        StackOutcome.FAILED,
        StackOutcome.CANCELLED,
        StackOutcome.SKIPPED,
        StackOutcome.CHANGES,
        StackOutcome.DONE,
        StackOutcome.UNCHANGED,
    )
    counted = {outcome: sum(result.outcome is outcome for result in results) for outcome in order}
    words = {StackOutcome.CHANGES: "with changes"}
    counts = ", ".join(f"{count} {words.get(outcome, outcome)}" for outcome, count in counted.items() if count)
    stacks = "1 stack" if len(results) == 1 else f"{len(results)} stacks"
    return f"Fleet {operation}: {stacks}: {counts}"
