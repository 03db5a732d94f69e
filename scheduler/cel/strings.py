"""CEL's functions on strings: the standard ones, version 2 of cel-go's extension, and regular expressions.

Regular expressions as Go has them, in time linear in the text: RE2.

Users write selectors, and Python's `re` can be made to run for hours by a pattern of twenty characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from scheduler.cel.errors import CelError, no_such_overload
from scheduler.cel.scope import Scope
from scheduler.cel.values import Value, equal

_SPACES = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005"
    "\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""What Go's unicode.IsSpace takes for a space."""


def _demand(*pairs: tuple[Value, type]) -> None:
    for value, kind in pairs:
        if type(value) is not kind:
            raise no_such_overload()


def _on_two(method: Callable[[str, str], Value]) -> Callable[..., Value]:
    def function(scope: Scope, text: Value, other: Value) -> Value:
        _demand((text, str), (other, str))
        scope.spend((len(text) + len(other)) // 10)
        return method(text, other)

    return function


def _on_text(method: Callable[[str], Value]) -> Callable[..., Value]:
    def function(scope: Scope, text: Value) -> Value:
        _demand((text, str))
        scope.spend(len(text) // 10)
        return method(text)

    return function


def _char_at(scope: Scope, text: Value, index: Value) -> Value:
    _demand((text, str), (index, int))
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(scope: Scope, text: Value, part: Value, start: Value = 0) -> Value:
    if type(text) is list:
        return _index_in_list(scope, text, part)
    _demand((text, str), (part, str), (start, int))
    scope.spend((len(text) + len(part)) // 10)
    if not part:
        return start
    if start < 0:
        raise CelError(f"index out of range: {start}")
    return text.find(part, start) if start < len(text) else -1


def _last_index_of(scope: Scope, text: Value, part: Value, end: Value = None) -> Value:
    if type(text) is list:
        return _index_in_list(scope, text, part, last=True)
    _demand((text, str), (part, str))
    scope.spend((len(text) + len(part)) // 10)
    if end is None:
        return len(text) if not part else text.rfind(part)
    _demand((end, int))
    if not part:
        return end
    if end < 0:
        raise CelError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part)) if end < len(text) else -1


def _index_in_list(scope: Scope, values: list[Value], wanted: Value, *, last: bool = False) -> int:
    order = range(len(values) - 1, -1, -1) if last else range(len(values))
    return next((index for index in order if equal(values[index], wanted, scope.spend)), -1)


def _replace(scope: Scope, text: Value, old: Value, new: Value, limit: Value = -1) -> Value:
    _demand((text, str), (old, str), (new, str), (limit, int))
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    scope.spend((len(text) + count * len(new)) // 10)
    return text.replace(old, new, limit) if limit else text


def _split(scope: Scope, text: Value, separator: Value, limit: Value = -1) -> Value:
    _demand((text, str), (separator, str), (limit, int))
    scope.spend(len(text) // 10)
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return text.split(separator, -1 if limit < 0 else limit - 1)


def _substring(scope: Scope, text: Value, start: Value, end: Value = None) -> Value:
    is_range = end is not None
    end = len(text) if end is None and type(text) is str else end
    _demand((text, str), (start, int), (end, int))
    if start > end and is_range:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise CelError(f"index out of range: {index}")
    scope.spend((end - start) // 10)
    return text[start:end]


def _join(scope: Scope, parts: Value, separator: Value = "") -> Value:
    _demand((parts, list), (separator, str), *((part, str) for part in parts if type(parts) is list))
    scope.spend((sum(map(len, parts)) + len(parts) * (len(separator) + 1)) // 10)
    return separator.join(parts)


def _lower_ascii(text: str) -> str:
    return "".join(chr(ord(each) + 32) if "A" <= each <= "Z" else each for each in text)


def _upper_ascii(text: str) -> str:
    return "".join(chr(ord(each) - 32) if "a" <= each <= "z" else each for each in text)


# Regular expressions ------------------------------------------------------------------------------------------------


def _pattern(scope: Scope, text: str) -> Pattern:
    scope.spend(1 + min(len(text), MAX_PATTERN))
    try:
        return cached_pattern(text)
    except PatternError as error:
        raise CelError(f"error parsing regexp: {error}") from error


def _matches(scope: Scope, text: Value, pattern: Value) -> Value:
    _demand((text, str), (pattern, str))
    return _pattern(scope, pattern).search(text, 0, scope.spend) is not None


def _find(scope: Scope, text: Value, pattern: Value) -> Value:
    _demand((text, str), (pattern, str))
    span = _pattern(scope, pattern).search(text, 0, scope.spend)
    return "" if span is None else text[span[0] : span[1]]


def _find_all(scope: Scope, text: Value, pattern: Value, limit: Value = -1) -> Value:
    _demand((text, str), (pattern, str), (limit, int))
    results: list[str] = []
    compiled, at, last_end = _pattern(scope, pattern), 0, -1
    while at <= len(text) and (limit < 0 or len(results) < limit):
        span = compiled.search(text, at, scope.spend)
        if span is None:
            break
        start, end = span
        # As Go: an empty match right behind the last match does not count.
        if start != end or start != last_end:
            results.append(text[start:end])
        last_end = end
        at = end + 1 if start == end else end
    return results


STRING_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "contains": _on_two(lambda text, other: other in text),
    "startsWith": _on_two(str.startswith),
    "endsWith": _on_two(str.endswith),
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "join": _join,
    "trim": _on_text(lambda text: text.strip(_SPACES)),
    "lowerAscii": _on_text(_lower_ascii),
    "upperAscii": _on_text(_upper_ascii),
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
}


MAX_PATTERN: Final = 1_000
"""Characters of a pattern."""
_MAX_BYTES: Final = 1 << 20
"""Of a compiled pattern and what it remembers: 256 patterns are kept."""
_ONE_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class PatternError(ValueError):
    """The text is no regular expression, or one that would be too large."""


@lru_cache(maxsize=256)
def cached_pattern(text: str) -> Pattern:
    """Return a compiled pattern.

    Raises:
        PatternError: it cannot be compiled.
    """
    return Pattern(text)


class Pattern:
    """A compiled pattern. Matches are the leftmost, and among those the one that the pattern prefers."""

    def __init__(self, text: str) -> None:
        # Here: few selectors have a pattern, and every start would load the library.
        import re2

        if len(text) > MAX_PATTERN:
            raise PatternError(f"longer than {MAX_PATTERN} characters")
        if _ONE_BYTE.search(text):
            # RE2's alone: it would cut a character in two, and Go has no such escape.
            raise PatternError(r"invalid escape sequence: `\C`")
        options = re2.Options()
        options.max_mem, options.log_errors = _MAX_BYTES, False
        try:
            self._compiled: Any = re2.compile(text, options)
        except re2.error as error:
            reason = error.args[0]
            raise PatternError(
                reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            ) from error

    def search(self, text: str, start: int, spend: Callable[[int], None]) -> tuple[int, int] | None:
        """Return where the first match from `start` on begins and ends; None without one. `spend` is told of the work
        first: without memory for its states, RE2 walks through the program for each character."""
        spend(1 + (len(text) - start) * (1 + self._compiled.programsize // 100))
        match = self._compiled.search(text, start)
        return None if match is None else match.span()
