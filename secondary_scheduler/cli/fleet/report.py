"""The table for people and the document for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from secondary_scheduler.cli.fleet.results import Operation, StackOutcome, StackResult, summary

_STYLES = {
    StackOutcome.UNCHANGED: "green",
    StackOutcome.CHANGES: "yellow",
    StackOutcome.DONE: "green",
    StackOutcome.FAILED: "red",
    StackOutcome.SKIPPED: "dim",
    StackOutcome.CANCELLED: "red",
}
COLUMNS = ("stack", "wave", "cluster", "result", "changes", "time", "reason")


def cells(result: StackResult) -> tuple[str, ...]:
    """A row under `COLUMNS`; `-` for an empty cell."""
    time = f"{result.seconds:.1f} s" if result.seconds else "-"
    return (
        result.stack,
        result.wave,
        result.cluster or "-",
        str(result.outcome),
        result.change_text or "-",
        time,
        result.reason or "-",
    )


def print_table(console: Console, operation: Operation, results: Sequence[StackResult]) -> None:
    """One row per stack, in the order of the waves."""
    table = Table(box=box.SIMPLE_HEAD, title=summary(operation, results), title_justify="left")
    for column in COLUMNS:
        table.add_column(column, no_wrap=column in ("wave", "result", "time"), overflow="fold")
    for result in results:
        row = [Text(cell) for cell in cells(result)]
        row[COLUMNS.index("result")].stylize(_STYLES[result.outcome])
        table.add_row(*row)
    console.print(table)
    for result in results:
        for drift in result.drift:
            console.print(f"{result.stack}: {drift.line()}", markup=False, highlight=False, soft_wrap=True)


def document(operation: Operation, results: Sequence[StackResult]) -> dict[str, Any]:
    """Everything that is known."""
    return {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "FleetResult",
        "operation": str(operation),
        "stacks": [_stack(result) for result in results],
    }


def _stack(result: StackResult) -> dict[str, Any]:
    return {
        "stack": result.stack,
        "wave": result.wave,
        "cluster": result.cluster,
        "result": str(result.outcome),
        "changes": dict(result.changes),
        "seconds": round(result.seconds, 1),
        "reason": result.reason,
        "resources": [
            {
                "operation": resource.operation,
                "type": resource.type,
                "name": resource.name,
                "properties": list(resource.properties),
            }
            for resource in result.resources
        ],
        "messages": list(result.messages),
        "gate": [{"check": check.name, "passed": check.passed, "found": check.detail} for check in result.gate],
        "outputs": result.outputs,
        "drift": [
            {
                "object": drift.object,
                "field": drift.field,
                "change": str(drift.change),
                "manager": drift.manager,
                "repair": drift.repair,
            }
            for drift in result.drift
        ],
    }
