"""`--watch`: a command's output again and again, in place on a terminal and one after another elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.typed import was_typed

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")]
IntervalOption = Annotated[
    float, typer.Option("--interval", min=1.0, max=3600.0, help="Seconds between two looks, with --watch.")
]
INTERVAL = 5.0


def require_watch(call: typer.Context, *, watch: bool) -> None:
    """Check that `--interval` does not stand alone.

    Raises:
        CommandError: it does.
    """
    if not watch and was_typed(call, "interval"):
        raise CommandError("--interval: only with --watch", ExitCode.USAGE)


def show_repeatedly(draw: Callable[[], str], seconds: float) -> None:
    """Write what `draw` returns, every `seconds` until the process is interrupted.

    A look that fails is shown as its error, and the next may succeed: an API server that restarts ends nothing.
    """
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        _write("\x1b[2J")
    first = True
    while True:
        try:
            text = draw()
        except CommandError as error:
            if first:
                raise
            text = _failed(str(error), on_terminal=on_terminal)
        first = False
        _write(redrawn(text, *shutil.get_terminal_size()) if on_terminal else text)
        time.sleep(seconds)


def redrawn(text: str, columns: int, rows: int) -> str:
    """Return what shows a text in place of the last: the lines that fit, and how many do not."""
    lines = text.splitlines()
    if len(lines) >= rows:
        room = max(rows - 2, 1)
        lines = [*lines[:room], f"… {len(lines) - room} more lines"]
    # Each line is cut at the edge: one that wraps would push the first ones off the screen.
    drawn = "".join(f"{_cut(line, columns)}\x1b[K\n" for line in lines)
    return f"\x1b[H{drawn}\x1b[J"


def _cut(line: str, columns: int) -> str:
    """Cut a line at a terminal's width. What it holds of colour is short, and ends where it began."""
    return line if len(line) <= columns or "\x1b" in line else f"{line[: max(columns - 1, 0)]}…"


def _failed(message: str, *, on_terminal: bool) -> str:
    if on_terminal:
        return f"{message}\n"
    typer.echo(f"secondary-scheduler: {message}", err=True)
    return ""


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
