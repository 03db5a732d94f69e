"""Where a snapshot's load is read. Apart from `measuring`, whose imports take longer than a command's help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LoadOrigin:
    """Where to read the load: one of the two addresses is set."""

    prometheus: str | None
    watcher: str | None
    token_file: Path | None
    ca_file: Path | None
    window: str
    allow_insecure: bool = False
