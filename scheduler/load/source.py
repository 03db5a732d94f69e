"""What every load source offers, and how it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from scheduler.framework import LoadReading

Known = Callable[[], int]
"""How many nodes, or pods, a source may tell about, for the cap on its answers. Called on the thread that reads it."""


class LoadError(Exception):
    """A source could not be read; the text says what, where and why, and never holds a credential."""


class LoadRefused(LoadError):
    """The source does not accept the credential."""


class LoadSource(Protocol):
    """One place to read loads from; called from the collector's thread only."""

    def describe(self) -> str:
        """Name the source in messages: type and address, no credential."""
        ...

    def read(self) -> LoadReading:
        """Fetch the loads of all instances.

        Raises:
            LoadError: the source did not answer, or not with loads.
        """
        ...

    def close(self) -> None:
        """Release connections."""
        ...
