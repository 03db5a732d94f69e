"""Progress on stderr: a live list on a terminal, one plain line per step elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task
from rich.progress_bar import ProgressBar
from rich.text import Text

_PLAIN_SECONDS = 20.0
"""How often a log gets a line about the progress of a step."""


class Advance(Protocol):
    """Told how far a step is."""

    def __call__(self, done: int, total: int, unit: str) -> None:
        """`done` of `total` units, such as "packages compiled", are done; a total of 0 is unknown."""


def ignore_progress(done: int, total: int, unit: str) -> None:
    """An `Advance` for nobody."""


class ProgressReporter(Protocol):
    """Told about every step; steps may run at the same time in several threads."""

    def step(self, label: str, announce: bool = False) -> AbstractContextManager[Advance]:
        """Work in progress until the block ends. `announce`: it takes long enough to say so at its beginning."""

    def note(self, text: str) -> None:
        """One line that stays."""


class SilentReporter:
    """Says nothing: for tests and for callers with a display of their own."""

    def step(self, label: str, announce: bool = False) -> AbstractContextManager[Advance]:
        """Nothing is shown."""
        return contextlib.nullcontext(ignore_progress)

    def note(self, text: str) -> None:
        """Nothing is shown."""


class PlainReporter:
    """A line at the end of each step, at the beginning of long ones, and now and then how far these are: for logs and
    pipes."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock

    @contextlib.contextmanager
    def step(self, label: str, announce: bool = False) -> Iterator[Advance]:
        """Print the step when it is done, with its duration; nothing when it failed, since the error says so."""
        if announce:
            self.note(f"{label} …")
        began = printed_at = self._clock()

        def advance(done: int, total: int, unit: str) -> None:
            nonlocal printed_at
            if self._clock() - printed_at >= _PLAIN_SECONDS:
                printed_at = self._clock()
                self.note(f"  {_amount(done, total, unit)}")

        yield advance
        self.note(f"{label}: {self._clock() - began:.1f} s")

    def note(self, text: str) -> None:
        """Print the line as it is: never wrapped, never coloured."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class _ElapsedColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        elapsed = task.finished_time if task.finished else task.elapsed
        return Text(f"{elapsed or 0.0:.1f} s", style="dim")


class _StepColumn(ProgressColumn):
    """What a step does, and below, how far it is, in words, while it runs: beside it, 80 columns would not do."""

    def render(self, task: Task) -> Text:
        text = Text(task.description)
        amount = task.fields.get("amount")
        return text.append(f"\n  {_amount(*amount)}", style="dim") if amount and not task.finished else text


class _BarColumn(ProgressColumn):
    """A bar for a step with a known total, while it runs."""

    def render(self, task: Task) -> ProgressBar | Text:
        done, total, _ = task.fields.get("amount") or (0, 0, "")
        return ProgressBar(total, done, width=16) if total and not task.finished else Text()


class LiveReporter:
    """A spinner, a bar and the elapsed time per running step; use it as a context manager around the work."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            _StepColumn(),
            _BarColumn(),
            _ElapsedColumn(),
            console=console,
        )

    def __enter__(self) -> LiveReporter:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextlib.contextmanager
    def step(self, label: str, announce: bool = False) -> Iterator[Advance]:
        """Show a running step, then its duration; a failed one disappears."""
        task = self._progress.add_task(label, total=1)
        try:
            yield lambda done, total, unit: self._progress.update(task, amount=(done, total, unit))
        except BaseException:
            self._progress.remove_task(task)
            raise
        self._progress.update(task, completed=1)

    def note(self, text: str) -> None:
        """Print above the running steps."""
        self._progress.console.print(text, markup=False, highlight=False)


def _amount(done: int, total: int, unit: str) -> str:
    return f"{done} of {total} {unit}" if total else f"{unit}: {done}"


@contextlib.contextmanager
def reporter(console: Console) -> Iterator[ProgressReporter]:
    """The reporter that suits the console."""
    if console.is_terminal:
        with LiveReporter(console) as live:
            yield live
    else:
        yield PlainReporter(console)
