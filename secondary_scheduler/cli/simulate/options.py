"""What the options of `simulate` may say. Apart from what reads them: the command line needs these to start."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Detail = Literal["full", "none"] | int
"""Nodes shown per pod: all, none, or the best so many."""


class ResultFormat(enum.StrEnum):
    """How decisions are written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    config: Path
    files: list[str]
    load: str | None
    pod: str | None
    rng: random.Random
    now: float | None
    detail: Detail
    preempt: bool
    output: ResultFormat
