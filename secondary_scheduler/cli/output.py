"""The form of a command's output, for commands that have a table for people and a document for programs."""

from __future__ import annotations

import enum


class OutputFormat(enum.StrEnum):
    """Values of `--output`."""

    TABLE = "table"
    JSON = "json"
