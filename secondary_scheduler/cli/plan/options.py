"""Types of the options of `plan`, apart from the code behind them: reading the command line needs these alone."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from secondary_scheduler.cli.snapshotoptions import InstalledPlace


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
class PlanRequest:
    """The options of one call."""

    old: Path | None
    new: Path
    place: InstalledPlace
    """Of the scheduler whose configuration is the old one where `old` names none."""
    files: list[str]
    over: Over
    load: str | None
    seed: int
    now: float | None
    as_scheduler: list[str]
    """`NAME` or `NAME=PROFILE`."""
    extender_recording: str | None
    output: PlanFormat
    summary: bool
    """Only the summary, as text."""
    recording: str | None = None
    """A recording in place of `files`."""
