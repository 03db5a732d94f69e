"""Types of the options of `rebalance plan`, apart from the code behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from secondary_scheduler.cli.output import FullOutputFormat

if TYPE_CHECKING:
    from secondary_scheduler.clustersnapshot.measuring import LoadOrigin


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A cluster to read, where its load comes from, and whether the scheduler's health is read."""

    kubeconfig: Path | None
    context: str | None
    origin: LoadOrigin | None
    ask_scheduler: bool = True


@dataclass(frozen=True, slots=True)
class RebalanceOptions:
    """What else is planned with.

    Attributes:
        settings: file with the settings; None for the defaults.
        live: the cluster to read in place of a snapshot.
    """

    settings: Path | None
    live: LiveSource | None
    rounds: int
    output: FullOutputFormat
