"""What `simulate` shows, apart from the code behind it: reading the command line needs this alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from secondary_scheduler.cli.output import FullOutputFormat

Detail = Literal["full", "none"] | int
"""Nodes shown per pod: all, none, or the best so many."""


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """What is simulated, and shown of it.

    Attributes:
        pod: file with one more pod to place.
        preempt: whether victims are removed.
        namespace: whose pods are shown; None: of all.
    """

    pod: str | None
    detail: Detail
    preempt: bool
    output: FullOutputFormat
    namespace: str | None
