"""What is wrong with the input, for stderr: a line each, and whether anything was left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.config import Problem
from secondary_scheduler.errors import printable

_MAX_LINES = 50
"""Lines that are shown one by one; a file that is wrong throughout needs no more to be recognised."""
_FIELD = re.compile(r"(?:not an? \w+: )?(.*?)(?: - at (`(?:key in )?\$[^`]*`))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """Where an object stands: documents count from 1 as in the file, items of a List from 0; line 0 is unknown."""

    file: str
    document: int
    line: int = 0
    item: int | None = None

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line else ""
        item = f", items[{self.item}]" if self.item is not None else ""
        return f"{self.file}: document {self.document}{item}{line}"


class InputReport:
    """Counts problems and prints each at once.

    Attributes:
        invalid: objects left out because they are no valid objects; they decide the exit code.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._shown = 0
        self._hidden = 0
        self.invalid = 0

    def leave_out(self, place: ObjectPlace, subject: str, problem: str) -> None:
        """Report an object that is left out because it is not valid: a wrong form, or a required field is missing."""
        self.invalid += 1
        self.warn(f"{place}{f', {subject}' if subject else ''}: {problem}; left out")

    def warn(self, text: str) -> None:
        """Print one line."""
        if self._shown >= _MAX_LINES:
            self._hidden += 1
            return
        self._shown += 1
        self._say(printable(text))

    def warn_of(self, problem: Problem) -> None:
        """Print one line about a configuration, whole: what to do stands at its end."""
        self._say(f"warning: {problem}")

    def note(self, text: str) -> None:
        """Print one line that is no problem; it is shown however many problems there are."""
        self._say(printable(text))

    def close(self) -> None:
        """Say how many lines were not shown."""
        if self._hidden:
            self._say(f"and {self._hidden} more like these")


def with_field(error: object) -> str:
    """Return a decoder's message with the field first, as Kubernetes writes it: `spec.nodeName: expected …`."""
    match = _FIELD.fullmatch(str(error))
    assert match is not None  # it matches any text
    message = match[1].replace("`", "")
    message = message[:1].lower() + message[1:]
    path = (match[2] or "").strip("`").replace("key in ", "").removeprefix("$").removeprefix(".")
    return f"{path}: {message}" if path else message
