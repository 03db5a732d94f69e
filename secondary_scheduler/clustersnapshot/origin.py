"""Where a snapshot's load is read. Apart from `measuring`, whose imports take longer than a command's help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.load import LoadSettings


@dataclass(frozen=True, slots=True)
class LoadOrigin:
    """Where to read the load: one of the two addresses is set.

    Attributes:
        window: what it is averaged over; None: as the scheduler has it.
        scheduler: how the scheduler reads its own load, of which the window, the queries and the label of nodes count;
            None: by the defaults.
    """

    prometheus: str | None
    watcher: str | None
    token_file: Path | None
    ca_file: Path | None
    window: str | None
    allow_insecure: bool = False
    scheduler: LoadSettings | None = None
