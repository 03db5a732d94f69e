"""Progress on stderr: a live list on a terminal, one plain line per step elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text


class Reporter(Protocol):
    """Told about every step; steps may run at the same time in several threads."""

    def step(self, label: str, announce: bool = False) -> AbstractContextManager[None]:
        """Work in progress until the block ends. `announce`: it takes long enough to say so at its beginning."""

    def note(self, text: str) -> None:
        """One line that stays."""


class SilentReporter:
    """Says nothing: for tests and for callers with a display of their own."""

    def step(self, label: str, announce: bool = False) -> AbstractContextManager[None]:
        """Nothing is shown."""
        return contextlib.nullcontext()

    def note(self, text: str) -> None:
        """Nothing is shown."""


class PlainReporter:
    """A line at the end of each step, and at the beginning of long ones: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextlib.contextmanager
    def step(self, label: str, announce: bool = False) -> Iterator[None]:
        """Print the step when it is done, with its duration; nothing when it failed, since the error says so."""
        if announce:
            self.note(f"{label} …")
        began = time.monotonic()
        yield
        self.note(f"{label}: {time.monotonic() - began:.1f} s")

    def note(self, text: str) -> None:
        """Print the line as it is: never wrapped, never coloured."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class _ElapsedColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        elapsed = task.finished_time if task.finished else task.elapsed
        return Text(f"{elapsed or 0.0:.1f} s", style="dim")


class LiveReporter:
    """A spinner with elapsed time per running step; use it as a context manager around the work."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"), _ElapsedColumn(), console=console
        )

    def __enter__(self) -> LiveReporter:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextlib.contextmanager
    def step(self, label: str, announce: bool = False) -> Iterator[None]:
        """Show a running step, then its duration; a failed one disappears."""
        task = self._progress.add_task(label, total=1)
        try:
            yield
        except BaseException:
            self._progress.remove_task(task)
            raise
        self._progress.update(task, completed=1)

    def note(self, text: str) -> None:
        """Print above the running steps."""
        self._progress.console.print(text, markup=False, highlight=False)


@contextlib.contextmanager
def reporter(console: Console) -> Iterator[Reporter]:
    """The reporter that suits the console."""
    if console.is_terminal:
        with LiveReporter(console) as live:
            yield live
    else:
        yield PlainReporter(console)
