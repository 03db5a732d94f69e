"""A load source that plays back a script."""

from __future__ import annotations

from scheduler.framework import LoadReading


class ScriptedSource:
    """Returns the readings of a script one after the other, and raises its errors."""

    def __init__(self, *script: LoadReading | Exception) -> None:
        self.script = list(script)
        self.closed = False

    def describe(self) -> str:
        return "Fake source"

    def read(self) -> LoadReading:
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def close(self) -> None:
        self.closed = True
