"""Devices that are in two claims: what the plugin that gives devices away finds, and the engine reports."""

from __future__ import annotations

from scheduler.framework import Objects


class DoubleAllocations:
    """The names of such devices now. One per store: `objects.derived(DoubleAllocations)`."""

    def __init__(self, objects: Objects) -> None:
        self.devices: set[str] = set()
