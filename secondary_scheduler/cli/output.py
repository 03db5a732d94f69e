"""The form of a command's output: a table for people, or a document for programs."""

from __future__ import annotations

import enum
import itertools
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from secondary_scheduler.cli.errors import printable

if TYPE_CHECKING:
    from msgspec import Struct


_MARGIN = 4
"""Columns by which tables are indented at most."""
_MIN_WIDTH = 12


def say(text: str) -> None:
    """Write a message to stderr, as one line."""
    import typer  # here: the door above imports this module, and who lacks the extra `cli` is told so by the program

    typer.echo(printable(text), err=True)


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


def document_text(document: Mapping[str, Any] | Struct, output: FullOutputFormat) -> str:
    """Return a document as YAML or, in every other form, as JSON; it ends with a newline."""
    if not isinstance(document, Mapping):
        # Here, as most commands start without it.
        from msgspec.json import decode, encode

        document = decode(encode(document), type=dict[str, Any])
    if output == FullOutputFormat.YAML:
        from secondary_scheduler.yamltext import dump_yaml

        return dump_yaml(document).decode()
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def terminal_columns() -> int | None:
    """Return the width of the terminal that stdout is; None where it is a file or a pipe, whose lines stay whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def text_width(width: int, indent: int = 0) -> int:
    """Return the width of text that is wrapped: `width`, or what a terminal has beside an indentation."""
    columns = terminal_columns()
    return width if columns is None else max(_MIN_WIDTH, min(width, columns - indent))


def aligned(rows: Iterable[Sequence[str]], spare: Sequence[str] = (), *, whole: bool = False) -> Iterator[str]:
    """Yield the rows of a table in columns two blanks apart, as wide as a terminal is.

    Args:
        rows: of one length; those with `spare` begin with a heading.
        spare: headings of columns that are shown in full or, where the terminal is too narrow, left out, the first of
            them first; a last line names them. The other columns wrap.
        whole: leave nothing out and wrap nothing, as in a file or a pipe; what `-o wide` is for where there is `spare`.
    """
    table = list(rows)
    if not table:
        return
    columns = None if whole else terminal_columns()
    if columns is None:
        yield from _folded(table, _widths(table))
        return
    room = columns - _MARGIN
    left_out: list[str] = []
    for heading in spare:
        if _needed(_least_widths(table, spare)) <= room:
            break
        place = table[0].index(heading)
        table = [[*row[:place], *row[place + 1 :]] for row in table]
        left_out.append(heading)
    yield from _folded(table, _fitted_widths(_widths(table), _least_widths(table, spare), room))
    if left_out:
        names = ", ".join(left_out)
        yield from textwrap.wrap(f"Left out: {names}; -o wide or a wider terminal shows all columns.", room)


def _folded(table: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for row in table:
        cells = [
            [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)
            for cell, width in zip(row, widths, strict=False)
        ]
        for line in itertools.zip_longest(*cells, fillvalue=""):
            yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _least_widths(table: Sequence[Sequence[str]], spare: Sequence[str]) -> list[int]:
    """Return how narrow the columns may be: a spare one is never narrowed, and the words of the others stay whole."""
    least = []
    for column, width in zip(zip(*table, strict=True), _widths(table), strict=True):
        words = (len(word) for cell in column for word in cell.split())
        least.append(width if column[0] in spare else max(min(width, _MIN_WIDTH), *words, 0))
    return least


def _needed(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _fitted_widths(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns that fit: the widest are made narrower, until they are as wide as the next."""
    if _needed(least) > room:
        # Words are broken only where they do not fit whole.
        least = [min(width, _MIN_WIDTH) for width in widths]
    narrowed = list(widths)
    while (excess := _needed(narrowed) - room) > 0:
        places = [place for place, width in enumerate(narrowed) if width > least[place]]
        if not places:
            break
        place = max(places, key=narrowed.__getitem__)
        widest = narrowed[place]
        next_widest = max((narrowed[other] for other in places if other != place), default=0)
        # Of several that are the widest, one after the other.
        next_width = next_widest if next_widest < widest else widest - 1
        narrowed[place] = max(widest - excess, next_width, least[place])
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


def examples(*lines: str) -> str:
    """The epilog with these lines; each is a command, without the program's name, or a comment (`# …`)."""
    commands = (line if line.startswith("#") else f"secondary-scheduler {line}" for line in lines)
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in commands)


def escaped(text: str) -> str:
    """One line without what Markdown, HTML or a forge would make of it: a table's bar, tags, mentions."""
    flat = " ".join(text.split())
    for special in "\\`*_~[]|":
        flat = flat.replace(special, f"\\{special}")
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
