"""Figures of several runs: summed up, told as they come, as a table, and saved when a run breaks off."""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result", bound="DataclassInstance")
Item = TypeVar("Item")


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum and maximum, to four significant digits."""
    return {
        name: float(f"{value:.4g}")
        for name, value in (("median", statistics.median(values)), ("min", min(values)), ("max", max(values)))
    }


def text_of(values: Sequence[float]) -> str:
    """Median, minimum and maximum as text: `2 (1 to 3.5)`."""
    of = summary(values)
    return f"{of['median']:g} ({of['min']:g} to {of['max']:g})"


def order_of(items: Iterable[Item], number: int) -> list[Item]:
    """Who comes when in the round with this number, from 1 on: nobody is always the first on fresh servers."""
    listed = list(items)
    shift = (number - 1) % len(listed)
    return listed[shift:] + listed[:shift]


def log(text: str) -> None:
    """One line of progress, with the time."""
    print(f"  {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def report(
    results: Iterable[Result],
    line: Callable[[Result], str],
    table: Callable[[Sequence[Result]], Iterable[str]],
    file: Path | None,
) -> list[Result]:
    """Print a line per result on stderr, at the end the table; returns the results.

    Args:
        results: whose making may raise an error.
        line: a result in one line.
        table: the lines of the table.
        file: gets the results as JSON, also those before an error; None for no file.
    """
    done: list[Result] = []
    try:
        for result in results:
            done.append(result)
            log(line(result))
    finally:
        if file and done:
            file.write_text(json.dumps([asdict(result) for result in done], indent=1))
    print("\n".join(table(done)))
    return done


def markdown(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    lines = [list(map(str, cells)) for cells in (headings, *rows)]
    lines.insert(1, [])
    return [f"| {' | '.join(cells)} |" if cells else f"|{'---|' * len(headings)}" for cells in lines]
