"""Forms of the command's output."""

from __future__ import annotations

import enum


class ExplainFormat(enum.StrEnum):
    """Values of `--output`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
