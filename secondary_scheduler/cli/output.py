"""The form of a command's output: a table for people, or a document for programs."""

from __future__ import annotations

import enum
import itertools
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_MARGIN = 4
"""Columns by which tables are indented at most."""
_NARROWEST = 12


class FullOutputFormat(enum.StrEnum):
    """Values of `--output`; a table that has no wide form is the same in both."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_document(self) -> bool:
        """Whether a program reads it."""
        return self in (FullOutputFormat.JSON, FullOutputFormat.YAML)


def document_text(document: Mapping[str, Any], output: FullOutputFormat) -> str:
    """Return a document as YAML or, in every other form, as JSON; it ends with a newline."""
    if output == FullOutputFormat.YAML:
        from secondary_scheduler.yamltext import dump_yaml

        return dump_yaml(document).decode()
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def terminal_columns() -> int | None:
    """Return the width of the terminal that stdout is; None where it is a file or a pipe, whose lines stay whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def text_width(most: int, indent: int = 0) -> int:
    """Return the width of text that is wrapped: `most`, or what a terminal has beside an indentation."""
    columns = terminal_columns()
    return most if columns is None else max(_NARROWEST, min(most, columns - indent))


def aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of a table in columns two blanks apart; on a terminal that is too narrow, the widest wrap."""
    table = list(rows)
    if not table:
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    columns = terminal_columns()
    if columns is not None:
        widths = _fitted_widths(widths, columns - _MARGIN)
    for row in table:
        cells = [
            [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)
            for cell, width in zip(row, widths, strict=False)
        ]
        for line in itertools.zip_longest(*cells, fillvalue=""):
            yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def _fitted_widths(widths: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns that fit: the widest are made narrower, until they are as wide as the next."""
    narrowed = list(widths)
    while (excess := sum(narrowed) + 2 * (len(narrowed) - 1) - room) > 0 and max(narrowed) > _NARROWEST:
        widest = max(narrowed)
        place = narrowed.index(widest)
        next_widest = max((*narrowed[:place], *narrowed[place + 1 :], 0))
        # Of several that are the widest, one after the other.
        least = next_widest if next_widest < widest else widest - 1
        narrowed[place] = max(widest - excess, least, _NARROWEST)
    return narrowed


def fitted(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of text, wrapped where they are longer than a terminal is wide; what follows is indented."""
    columns = terminal_columns()
    for line in lines:
        # What is coloured is short, and its length says nothing.
        if columns is None or len(line) <= columns or "\x1b" in line:
            yield line
            continue
        indent = line[: len(line) - len(line.lstrip())]
        following = f"{indent}  "
        yield from textwrap.wrap(
            line.strip(), columns, initial_indent=indent, subsequent_indent=following, break_on_hyphens=False
        )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 pod` or `3 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
