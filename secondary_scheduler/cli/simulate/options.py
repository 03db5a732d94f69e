"""Types of the options of `simulate`, apart from the code behind them: reading the command line needs these alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from secondary_scheduler.cli.output import FullOutputFormat
from secondary_scheduler.cli.snapshotoptions import InstalledPlace

Detail = Literal["full", "none"] | int
"""Nodes shown per pod: all, none, or the best so many."""


@dataclass(frozen=True, slots=True)
class SimulateRequest:
    """The options of one call."""

    config: Path | None
    place: InstalledPlace
    """Of the scheduler whose configuration decides where `config` names none."""
    files: list[str]
    load: str | None
    pod: str | None
    seed: int
    now: float | None
    detail: Detail
    preempt: bool
    output: FullOutputFormat
    as_scheduler: list[str]
    """`NAME` or `NAME=PROFILE`."""
    namespace: str | None
    """Whose pods are shown; None for all."""
    extender_recording: str | None = None
    """File with answers of extenders."""
