"""Errors that end a command: those that also arise below the command line, and an interruption."""

from __future__ import annotations

from secondary_scheduler.errors import CommandError, ExitCode, InputError, printable, printable_lines

__all__ = ["CommandError", "ExitCode", "InputError", "Interrupted", "printable", "printable_lines"]


class Interrupted(SystemExit):
    """Ctrl-C, SIGTERM or SIGHUP. Not an Exception, so that only cleanup sees it on its way out. A SystemExit, because
    asyncio logs and drops whatever else a callback of its loop raises, and typer answers a KeyboardInterrupt itself."""

    def __init__(self, text: str = "interrupted; everything unfinished was removed") -> None:
        super().__init__(ExitCode.INTERRUPTED.value)
        self.text = text
