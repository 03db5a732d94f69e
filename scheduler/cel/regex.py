"""Regular expressions as Go has them, in time linear in the text: RE2.

Users write selectors, and Python's `re` can be made to run for hours by a pattern of twenty characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

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
