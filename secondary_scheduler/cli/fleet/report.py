"""The table for people, and the comment on a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.fleet.results import Operation, StackOutcome, StackResult, summary
from secondary_scheduler.cli.output import escaped

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
    """A row under `COLUMNS`, which no terminal misreads; `-` for an empty cell."""
    time = f"{result.seconds:.1f} s" if result.seconds else "-"
    texts = (
        result.stack,
        result.wave,
        result.cluster or "-",
        str(result.outcome),
        result.change_text or "-",
        time,
        result.reason or "-",
    )
    return tuple(map(_shown, texts))


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
            console.print(_shown(f"{result.stack}: {drift.line()}"), markup=False, highlight=False, soft_wrap=True)


def line_of(result: StackResult) -> str:
    """What is said as soon as a stack is done."""
    detail = "; ".join(text for text in (result.change_text, result.reason) if text)
    return _shown(f"{result.stack}: {result.outcome} after {result.seconds:.1f} s{f': {detail}' if detail else ''}")


def _shown(text: str) -> str:
    """One whole line, however long: it may hold a command."""
    return printable(text, len(text))


LIMIT = 65_535
"""Bytes. GitHub takes comments of fewer than 65,536 characters; a limit in bytes keeps it whatever they are."""
_MAX_CELL = 300
_MIN_DETAIL = 200
_ICONS = {
    StackOutcome.UNCHANGED: "✅",
    StackOutcome.CHANGES: "✏️",
    StackOutcome.DONE: "✅",
    StackOutcome.FAILED: "❌",
    StackOutcome.SKIPPED: "⏭️",
    StackOutcome.CANCELLED: "🛑",
}
_MORE = "The whole is in the job's `-o json`."


def marker(operation: Operation) -> str:
    """An invisible first line by which the comment of an earlier run is found, to be replaced."""
    return f"<!-- secondary-scheduler fleet {operation} -->"


def comment(operation: Operation, results: Sequence[StackResult], limit: int = LIMIT) -> str:
    """The comment, at most `limit` bytes. What does not fit is cut from every stack alike, with a note."""
    head = f"{marker(operation)}\n### {summary(operation, results)}\n\n"
    table = _table(results, limit // 2 - _size(head))
    details = {result.stack: lines for result in results if (lines := _lines(result))}
    room = limit - _size(head) - _size(table)
    blocks = {
        result.stack: _details_block(result, details[result.stack]) for result in results if result.stack in details
    }
    shares = fair_shares({name: _size(block) for name, block in blocks.items()}, room)
    fitting: list[str] = []
    left_out = 0
    for result in results:
        if result.stack not in details:
            continue
        block = _fitting_details(result, details[result.stack], shares[result.stack])
        left_out += not block
        fitting.append(block)
    text = head + table + "".join(fitting)
    if left_out:
        note = f"\nDetails of {left_out} of {len(blocks)} stacks do not fit into this comment. {_MORE}\n"
        if _size(text) + _size(note) <= limit:
            text += note
    return text


def fair_shares(sizes: Mapping[str, int], room: int) -> dict[str, int]:
    """Divide `room`: who wants less than an equal share gets that, and the others share the rest equally."""
    shares: dict[str, int] = {}
    left = max(room, 0)
    for index, (name, size) in enumerate(sorted(sizes.items(), key=lambda item: (item[1], item[0]))):
        shares[name] = min(size, left // (len(sizes) - index))
        left -= shares[name]
    return shares


def _table(results: Sequence[StackResult], room: int) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    used = sum(_size(line) + 1 for line in lines)
    # Failures are what a reader must not miss where not all rows fit.
    order = sorted(range(len(results)), key=lambda index: (results[index].outcome is not StackOutcome.FAILED, index))
    rows: dict[int, str] = {}
    note_room = 120
    for index in order:
        row = _row(results[index])
        if used + _size(row) + 1 > room - note_room:
            continue
        rows[index] = row
        used += _size(row) + 1
    lines += [rows[index] for index in sorted(rows)]
    if len(rows) < len(results):
        lines += ["", f"… and {len(results) - len(rows)} more stacks, which do not fit into this comment. {_MORE}"]
    return "\n".join(lines) + "\n\n"


def _row(result: StackResult) -> str:
    row = [_cell(cell) for cell in cells(result)]
    place = COLUMNS.index("result")
    row[place] = f"{_ICONS[result.outcome]} {row[place]}"
    return f"| {' | '.join(row)} |"


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    return escaped(flat if len(flat) <= _MAX_CELL else flat[: _MAX_CELL - 1] + "…")


def _lines(result: StackResult) -> list[str]:
    lines = [resource.line() for resource in result.resources]
    failed = [f"gate: {check.name}: {check.detail}" for check in result.gate if not check.passed]
    drifted = [drift.line() for drift in result.drift]
    texts = [*failed, *drifted, *lines, *([""] if lines and result.messages else []), *result.messages]
    return list(map(_shown, texts))


def _details_block(result: StackResult, lines: Sequence[str], note: str = "") -> str:
    """Folded, and in a fence that nothing inside can close."""
    body = "\n".join(lines)
    fence = "`" * max(3, _longest_run(body) + 1)
    title = _html(f"{result.stack}: {result.change_text or result.outcome}")
    prefix = f"{note}\n\n" if note else ""
    return f"<details><summary>{title}</summary>\n\n{fence}text\n{body}\n{fence}\n{prefix}</details>\n\n"


def _fitting_details(result: StackResult, lines: Sequence[str], room: int) -> str:
    whole = _details_block(result, lines)
    if _size(whole) <= room:
        return whole
    if room < _MIN_DETAIL:
        return ""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(_truncated_details(result, lines, middle)) <= room:
            low = middle
        else:
            high = middle - 1
    return _truncated_details(result, lines, low) if low else ""


def _truncated_details(result: StackResult, lines: Sequence[str], count: int) -> str:
    return _details_block(result, lines[:count], f"Cut: {count} of {len(lines)} lines are shown. {_MORE}")


def _longest_run(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


def _size(text: str) -> int:
    return len(text.encode())
