"""Types of the options of `rebalance plan`, apart from the code behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from secondary_scheduler.cli.output import FullOutputFormat


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A cluster to read, and where its load comes from."""

    kubeconfig: Path | None
    context: str | None
    prometheus: str | None
    watcher: str | None
    token_file: Path | None
    ca_file: Path | None
    allow_insecure: bool
    window: str


@dataclass(frozen=True, slots=True)
class RebalanceRequest:
    """The options of one call.

    Attributes:
        files: of the snapshot; none where `live` is read.
        settings: file with the settings; None for the defaults.
    """

    config: Path
    settings: Path | None
    files: list[str]
    live: LiveSource | None
    load: str | None
    seed: int
    now: float | None
    rounds: int
    output: FullOutputFormat
