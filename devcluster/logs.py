"""Reading the services' log files."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

_POLL_SECONDS = 0.2


def names(directory: Path) -> list[str]:
    """The services that have a log there."""
    return sorted(path.stem for path in directory.glob("*.log"))


def find(directory: Path, service: str) -> dict[str, Path]:
    """The log of one service, or of all when none is named; empty when there is no such service."""
    return {name: directory / f"{name}.log" for name in names(directory) if service in ("", name)}


def read(files: Mapping[str, Path], lines: int, follow: bool) -> Iterator[str]:
    """The last lines of each log; then, with `follow`, every further line until the logs are removed.

    With several logs each line begins with its service's name.
    """
    width = max((len(name) for name in files), default=0)
    opened = [
        (f"{name:<{width}} | " if len(files) > 1 else "", path.open(errors="replace")) for name, path in files.items()
    ]
    try:
        for prefix, file in opened:
            for line in deque(file, maxlen=lines):
                yield prefix + line.rstrip("\n")
        while follow and all(path.exists() for path in files.values()):
            fresh = False
            for line in _new_lines(opened):
                fresh = True
                yield line
            if not fresh:
                time.sleep(_POLL_SECONDS)
    finally:
        for _, file in opened:
            file.close()


def _new_lines(opened: Sequence[tuple[str, TextIO]]) -> Iterator[str]:
    for prefix, file in opened:
        for line in file:
            yield prefix + line.rstrip("\n")
