"""Types of the options of `plan`, apart from the code behind them: reading the command line needs these alone."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Over(enum.StrEnum):
    """Which pods are placed."""

    PENDING = "pending"
    ALL = "all"
    RECORDING = "recording"


class PlanFormat(enum.StrEnum):
    """How the comparison is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Which pods are placed, and how the comparison is written; `summary`: only that, as text."""

    over: Over
    output: PlanFormat
    summary: bool
