"""Forms of the commands' output."""

from __future__ import annotations

import enum


class OptInFormat(enum.StrEnum):
    """Values of `--output`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
