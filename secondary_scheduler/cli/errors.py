"""Errors that end a command with one line and a documented exit code."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """What a command's exit code says."""

    OK = 0
    ERROR = 1
    USAGE = 2
    DIFFERENCES = 3
    INVALID_INPUT = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """One line for the user: what, where, why and what to do."""

    def __init__(self, message: str, code: ExitCode = ExitCode.ERROR) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(BaseException):
    """Ctrl-C, SIGTERM or SIGHUP. Not an Exception, so that only cleanup sees it on its way out."""
