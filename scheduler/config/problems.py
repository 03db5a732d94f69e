"""Problems of configurations and settings, as data and as one line of text; and what pydantic finds, in our words."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scheduler.catalog import Loc

Severity = Literal["error", "warning"]
UNKNOWN_FIELD = "unknown field"
"""So begins the message about one."""
_EXPECTED = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}
_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
"""Of numbers: the words for each, and where pydantic has the number."""
# A wrong value below these keys may be the secret itself, put into the wrong place.
_NEVER_SHOWN = re.compile(r"credentials|address|token|password|secret", re.IGNORECASE)
_LOOKS_SECRET = re.compile(r"eyJ|sha256~|Bearer\s|-----BEGIN|\S+://[^/\s]*:[^/\s]*@", re.IGNORECASE)
"""A JWT, an OpenShift token, a header, a PEM block or a URL with a password: no message quotes it."""
_SHOWN = 80
"""Characters of a value at most."""


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


def messages_of(error: ValidationError) -> Iterator[tuple[Loc, str]]:
    """Yield the place and the message of each error."""
    for detail in error.errors(include_url=False):
        yield detail["loc"], message_of(detail)


def message_of(detail: ErrorDetails) -> str:
    """Return what is wrong, without the place."""
    loc, kind, context = detail["loc"], detail["type"], detail.get("ctx", {})
    value = describe_value(loc, detail["input"])
    if kind == "extra_forbidden":
        return f'{UNKNOWN_FIELD} "{loc[-1]}"'
    if kind == "missing":
        return "is required"
    if kind in ("literal_error", "enum"):
        words = str(context.get("expected", ""))
        allowed = re.findall(r"'([^']*)'", words)
        hint = closest(str(detail["input"]), allowed)
        return f"{value} is not allowed; allowed: {', '.join(allowed) or words}" + (
            f'; did you mean "{hint}"?' * bool(hint)
        )
    if kind in _EXPECTED:
        quotes = "; put it in quotes" if kind == "string_type" and isinstance(detail["input"], int | float) else ""
        return f"must be {_EXPECTED[kind]}, not {value}{quotes}"
    if kind in _LIMITS:
        words, limit = _LIMITS[kind]
        number = context[limit]
        whole = int(number) if isinstance(number, float) and number.is_integer() else number
        return f"must be {words} {whole}, not {value}"
    if kind in ("string_too_short", "too_short"):
        return "must not be empty" if context.get("min_length") == 1 else f"needs at least {context['min_length']}"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters, not {len(str(detail['input']))}"
    if kind == "string_pattern_mismatch":
        return f"{value} must match {context['pattern']}"
    return message_without_value(detail)


def message_without_value(detail: ErrorDetails) -> str:
    """Return what is wrong, without the value, which may be secret."""
    if detail["type"] == "value_error":
        return str(detail.get("ctx", {}).get("error", detail["msg"]))
    # Whatever it is: people write values, and no input.
    return detail["msg"].replace("Input should", "must")


def describe_value(loc: Loc, value: Any) -> str:
    """Return a value as text for a message: shortened, and its kind only where it is structured or may be secret."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "null"
    if not is_shown(loc, value):
        return "a string" if isinstance(value, str) else "a boolean" if isinstance(value, bool) else "a number"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f'{text[: _SHOWN - 4]}…"'


def is_shown(loc: Loc, value: Any) -> bool:
    """Tell whether a message may quote a value: it is neither structured nor perhaps a secret."""
    plain = isinstance(value, str | int | float)
    return plain and not _NEVER_SHOWN.search(path_text(loc)) and not _LOOKS_SECRET.match(str(value))


def closest(name: str, allowed: Iterable[str]) -> str:
    """Return the allowed name that a mistyped one is most like; empty for none."""
    return _closest(name, tuple(sorted(allowed)))


@lru_cache(maxsize=16)
def _closest(name: str, names: tuple[str, ...]) -> str:
    import difflib  # here, since few mistype a name

    same = next((candidate for candidate in names if candidate.lower() == name.lower()), "")
    return same or next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.6)), "")
