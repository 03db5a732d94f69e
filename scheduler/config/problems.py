"""Problems of configurations and settings, as data and as one line of text."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from scheduler.catalog import Loc

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a configuration or in a stack's settings, or a warning.

    Attributes:
        loc: field names as written and list indices; empty for the whole document.
        message: what is wrong, without the place and without a secret.
        line: counted from 1; 0 where the place in the text is not known.
        column: counted from 1; 0 where only the line is known.
        severity: `warning` if the configuration can be used nevertheless.
        hint: what to do about it.
        source: the file or object.
    """

    loc: Loc
    message: str
    line: int = 0
    column: int = 0
    severity: Severity = "error"
    hint: str = ""
    source: str = ""

    @property
    def path(self) -> str:
        """The location as Kubernetes writes field paths: `profiles[0].plugins.score`."""
        return path_text(self.loc)

    def __str__(self) -> str:
        place = self.source or "configuration"
        if self.line:
            place += f":{self.line}:{self.column}" if self.column else f":{self.line}"
        text = ": ".join(part for part in (place, self.path, self.message) if part)
        text = f"{text}; {self.hint}" if self.hint else text
        # Quoted values may contain anything; a problem must stay one line of printable text.
        return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


class ConfigurationError(Exception):
    """A configuration that cannot be used.

    Attributes:
        problems: every error found, in the order of the file.
        warnings: found before the errors stopped the check; there may be more.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        ordered = sorted(problems, key=lambda problem: (problem.line, problem.column))
        self.problems = tuple(problem for problem in ordered if problem.severity == "error")
        self.warnings = tuple(problem for problem in ordered if problem.severity == "warning")
        super().__init__("\n".join(str(problem) for problem in self.problems))


def path_text(loc: Loc) -> str:
    """Return a location as Kubernetes writes field paths: `profiles[0].plugins.score`."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.removesuffix("[]").replace("_", "").replace("-", "").isalnum():
            text += f".{part}" if text else part
        else:
            text += f"[{part}]"
    return text
