"""The form of a command's output: a table for people, or a document for programs."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


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


def aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of a table in columns two blanks apart."""
    table = list(rows)
    if not table:
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]) - 1)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        # The last column is not padded: it may hold long messages.
        yield "  ".join((*cells, row[-1])).rstrip()


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 pod` or `3 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
