"""Types of the options of `rebalance plan`, apart from the code behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from secondary_scheduler.cli.output import FullOutputFormat
from secondary_scheduler.cli.snapshotoptions import InstalledPlace
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A cluster to read, where its load comes from, and whether the scheduler's health is read."""

    kubeconfig: Path | None
    context: str | None
    origin: LoadOrigin | None
    ask_scheduler: bool = True


@dataclass(frozen=True, slots=True)
class RebalanceRequest:
    """The options of one call.

    Attributes:
        files: of the snapshot; none where `live` is read.
        place: of the scheduler whose configuration decides where `config` names none.
        settings: file with the settings; None for the defaults.
    """

    config: Path | None
    place: InstalledPlace
    settings: Path | None
    files: list[str]
    live: LiveSource | None
    load: str | None
    seed: int
    now: float | None
    rounds: int
    output: FullOutputFormat
