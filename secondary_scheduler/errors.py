"""Errors that end a command with one line and a documented exit code."""

from __future__ import annotations

import enum

_MAX_LINE_LENGTH = 400


class ExitCode(enum.IntEnum):
    """Exit codes of all commands, as documented."""

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


class InputError(CommandError):
    """A file that cannot be used at all: exit code 4."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message), ExitCode.INVALID_INPUT)


def printable(text: str, longest: int = _MAX_LINE_LENGTH) -> str:
    """Return one line of at most `longest` characters that no terminal misreads: what objects hold may be anything."""
    cut = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return _harmless(cut)


def printable_lines(text: str) -> str:
    """Return lines that no terminal misreads, however long."""
    return "\n".join(map(_harmless, text.split("\n")))


def _harmless(line: str) -> str:
    return line if line.isprintable() else "".join(char if char.isprintable() else "�" for char in line)
