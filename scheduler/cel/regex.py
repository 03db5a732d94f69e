"""Regular expressions in time linear in the text: RE2's syntax, run as a set of threads (Thompson, Pike).

Users write selectors, and Python's `re` can be made to run for hours by a pattern of twenty characters. Matches are
Go's: the leftmost, and among those the one that the pattern prefers. Unicode classes (`\\pL`) are not supported, and
said so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MAX_PATTERN: Final = 1_000
"""Characters of a pattern."""
_MAX_PROGRAM: Final = 5_000
_MAX_REPEAT: Final = 1_000
_MAX_NESTED: Final = 50


class PatternError(ValueError):
    """The text is no regular expression of RE2, or uses what is not supported here."""


@dataclass(frozen=True, slots=True)
class _Flags:
    fold: bool = False
    multi: bool = False
    dot_all: bool = False
    ungreedy: bool = False


class _CharSet:
    """Which characters a step accepts."""

    __slots__ = ("_fold", "_negated", "_ranges")

    def __init__(self, ranges: tuple[tuple[str, str], ...], *, negated: bool = False, fold: bool = False) -> None:
        self._ranges = ranges
        self._negated = negated
        self._fold = fold

    def accepts(self, character: str) -> bool:
        inside = self._has(character)
        if self._fold and not inside:
            inside = self._has(character.lower()) or self._has(character.upper())
        return inside is not self._negated

    def _has(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self._ranges)


_ASSERTIONS: Final = ("begin", "end", "line begin", "line end", "word", "not word")
# A program: ("char", set), ("split", first, second), ("jump", to), ("assert", which), ("match",).
_Step = tuple[object, ...]
_DIGIT, _SPACE = (("0", "9"),), (("\t", "\n"), ("\f", "\r"), (" ", " "))
_WORD = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_ANY = (("\0", "\U0010ffff"),)
_NAMED: Final = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")), "alpha": (("A", "Z"), ("a", "z")), "ascii": (("\0", "\x7f"),),
    "blank": (("\t", "\t"), (" ", " ")), "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")), "digit": _DIGIT,
    "graph": (("!", "~"),), "lower": (("a", "z"),), "print": ((" ", "~"),),
    "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")), "space": (("\t", "\r"), (" ", " ")),
    "upper": (("A", "Z"),), "word": _WORD, "xdigit": (("0", "9"), ("A", "F"), ("a", "f")),
}  # fmt: skip
_CONTROL: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


@lru_cache(maxsize=256)
def cached_pattern(text: str) -> Pattern:
    """Return a compiled pattern.

    Raises:
        PatternError: it cannot be compiled.
    """
    return Pattern(text)


class Pattern:
    """A compiled regular expression."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN:
            raise PatternError(f"a pattern may have {MAX_PATTERN} characters")
        self._program = _Compiler(text).compile()

    def search(self, text: str, start: int, spend: Callable[[int], None]) -> tuple[int, int] | None:
        """Return where the first match at or behind `start` begins and ends; `spend` is called with the work."""
        program, best = self._program, None
        threads: list[tuple[int, int]] = []
        for at in range(start, len(text) + 1):
            # A new thread has the least priority: what began further left wins.
            current = self._closed([*threads, *(((0, at),) if best is None else ())], text, at)
            spend(1 + len(current))
            threads = []
            for counter, began in current:
                step = program[counter]
                if step[0] == "match":
                    best = (began, at)
                    break
                accepting = step[1]
                assert isinstance(accepting, _CharSet)
                if at < len(text) and accepting.accepts(text[at]):
                    threads.append((counter + 1, began))
            if not threads and best is not None:
                break
        return best

    def _closed(self, threads: list[tuple[int, int]], text: str, at: int) -> list[tuple[int, int]]:
        """Follow everything that reads no character, in order of priority."""
        seen: set[int] = set()
        closed: list[tuple[int, int]] = []
        stack = threads[::-1]
        while stack:
            counter, began = stack.pop()
            if counter in seen:
                continue
            seen.add(counter)
            step = self._program[counter]
            if step[0] == "jump":
                stack.append((_target(step, 1), began))
            elif step[0] == "split":
                stack.append((_target(step, 2), began))
                stack.append((_target(step, 1), began))
            elif step[0] == "assert":
                if _holds(str(step[1]), text, at):
                    stack.append((counter + 1, began))
            else:
                closed.append((counter, began))
        return closed


def _target(step: _Step, index: int) -> int:
    target = step[index]
    assert isinstance(target, int)
    return target


def _holds(assertion: str, text: str, at: int) -> bool:
    if assertion == "begin":
        return at == 0
    if assertion == "end":
        return at == len(text)
    if assertion == "line begin":
        return at == 0 or text[at - 1] == "\n"
    if assertion == "line end":
        return at == len(text) or text[at] == "\n"
    before = at > 0 and _is_word(text[at - 1])
    after = at < len(text) and _is_word(text[at])
    return (before != after) is (assertion == "word")


def _is_word(character: str) -> bool:
    return any(low <= character <= high for low, high in _WORD)


_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_PUNCTUATION: Final = re.compile(r"[!-/:-@\[-`{-~]")
_REPEAT: Final = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}", re.ASCII)
_GROUP_FLAGS: Final = re.compile(r"\?([imsU]*)(?:-([imsU]+))?([:)])", re.ASCII)
_GROUP_NAME: Final = re.compile(r"\?P?<[A-Za-z0-9_]+>", re.ASCII)


class _Compiler:
    """Reads a pattern and emits its program in one pass; a fragment is a list of steps with targets relative to it."""

    def __init__(self, text: str) -> None:
        self._text = _QUOTED.sub(lambda quoted: _PUNCTUATION.sub(r"\\\g<0>", quoted[1]), text)
        self._at = 0
        self._nested = 0

    def compile(self) -> tuple[_Step, ...]:
        fragment = self._alternation(_Flags())
        if self._at < len(self._text):
            raise PatternError("unexpected )")
        return (*fragment, ("match",))

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _alternation(self, flags: _Flags) -> list[_Step]:
        self._nested += 1
        if self._nested > _MAX_NESTED:
            raise PatternError("expression nests too deeply")
        flags_now = [flags]
        branches = [self._sequence(flags_now)]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence(flags_now))
        self._nested -= 1
        result = branches.pop()
        while branches:
            branch = branches.pop()
            after = len(branch) + 2
            result = _sized(
                [("split", 1, after), *_moved(branch, 1), ("jump", after + len(result)), *_moved(result, after)]
            )
        return result

    def _sequence(self, flags_now: list[_Flags]) -> list[_Step]:
        result: list[_Step] = []
        while self._peek() not in ("", "|", ")"):
            fragment = self._atom(flags_now)
            if fragment is not None:
                fragment = self._repeated(fragment, flags_now[0])
                result = _sized([*result, *_moved(fragment, len(result))])
        return result

    def _repeated(self, fragment: list[_Step], flags: _Flags) -> list[_Step]:
        repeats = 0
        while True:
            least, most = 0, -1
            match = _REPEAT.match(self._text, self._at)
            if self._peek() in ("*", "+", "?") and self._peek():
                least, most = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[self._peek()]
                self._at += 1
            elif match is not None:
                least = int(match[1])
                most = least if not match[2] else int(match[3]) if match[3] else -1
                if max(least, most) > _MAX_REPEAT or (most >= 0 and least > most):
                    raise PatternError(f"invalid repeat count: `{match.group()}`")
                self._at = match.end()
            else:
                return fragment
            repeats += 1
            if repeats > 1:
                raise PatternError("invalid nested repetition operator")
            lazy = flags.ungreedy
            if self._peek() == "?":
                self._at += 1
                lazy = not lazy
            fragment = _copies(fragment, least, most, lazy=lazy)

    def _atom(self, flags_now: list[_Flags]) -> list[_Step] | None:
        flags, character = flags_now[0], self._peek()
        self._at += 1
        if character == "(":
            return self._group(flags_now)
        if character == "[":
            return [("char", self._set(flags))]
        if character == ".":
            return [("char", _CharSet(_ANY) if flags.dot_all else _CharSet((("\n", "\n"),), negated=True))]
        if character == "^":
            return [("assert", "line begin" if flags.multi else "begin")]
        if character == "$":
            return [("assert", "line end" if flags.multi else "end")]
        if character in "*+?":
            raise PatternError(f"missing argument to repetition operator: `{character}`")
        if character == "\\":
            return self._escape(flags)
        return [("char", _CharSet(((character, character),), fold=flags.fold))]

    def _group(self, flags_now: list[_Flags]) -> list[_Step] | None:
        flags = flags_now[0]
        if self._peek() == "?":
            named, match = _GROUP_NAME.match(self._text, self._at), _GROUP_FLAGS.match(self._text, self._at)
            if named is not None:
                self._at = named.end()
            elif match is not None:
                self._at = match.end()
                flags = _with_flags(flags, match[1], match[2] or "")
                if match[3] == ")":
                    flags_now[0] = flags
                    return None
            else:
                raise PatternError("invalid or unsupported Perl syntax: `(?`")
        fragment = self._alternation(flags)
        if self._peek() != ")":
            raise PatternError("missing closing )")
        self._at += 1
        return fragment

    def _escape(self, flags: _Flags) -> list[_Step]:
        letter = self._peek()
        assertions = {"A": "begin", "z": "end", "b": "word", "B": "not word"}
        if letter in assertions and letter:
            self._at += 1
            return [("assert", assertions[letter])]
        ranges, negated = self._escaped_ranges()
        return [("char", _CharSet(ranges, negated=negated, fold=flags.fold))]

    def _escaped_ranges(self) -> tuple[tuple[tuple[str, str], ...], bool]:
        letter = self._peek()
        self._at += 1
        classes = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
        if letter.lower() in classes and letter:
            return classes[letter.lower()], letter.isupper()
        if letter in ("p", "P") and letter:
            raise PatternError(f"\\{letter} is not supported by this scheduler")
        character = _CONTROL.get(letter)
        if letter == "x":
            match = re.compile(r"\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{2})").match(self._text, self._at)
            if match is None or int(match[1] or match[2], 16) > 0x10FFFF:
                raise PatternError("invalid escape sequence: `\\x`")
            self._at = match.end()
            character = chr(int(match[1] or match[2], 16))
        elif character is None and letter and (not letter.isalnum() or not letter.isascii()) and letter.isascii():
            character = letter
        if character is None:
            raise PatternError(f"invalid escape sequence: `\\{letter}`")
        return ((character, character),), False

    def _set(self, flags: _Flags) -> _CharSet:
        negated = self._peek() == "^"
        self._at += negated
        ranges: list[tuple[str, str]] = []
        first = True
        while self._peek() != "]" or first:
            if not self._peek():
                raise PatternError("missing closing ]")
            first = False
            ranges.extend(self._set_item())
        self._at += 1
        return _CharSet(tuple(ranges), negated=negated, fold=flags.fold)

    def _set_item(self) -> tuple[tuple[str, str], ...]:
        named = re.compile(r"\[:(\^?)([a-z]+):\]").match(self._text, self._at)
        if named is not None:
            if named[2] not in _NAMED:
                raise PatternError(f"invalid character class range: `{named.group()}`")
            self._at = named.end()
            return _complement(_NAMED[named[2]]) if named[1] else _NAMED[named[2]]
        low = self._set_character()
        if len(low) != 1 or low[0][0] != low[0][1]:
            return low
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return low
        self._at += 1
        high = self._set_character()
        if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
            raise PatternError("invalid character class range")
        return ((low[0][0], high[0][0]),)

    def _set_character(self) -> tuple[tuple[str, str], ...]:
        character = self._peek()
        self._at += 1
        if character == "\\":
            ranges, negated = self._escaped_ranges()
            return _complement(ranges) if negated else ranges
        return ((character, character),)


def _with_flags(flags: _Flags, on: str, off: str) -> _Flags:
    def value(letter: str, now: bool) -> bool:
        return (now or letter in on) and letter not in off

    return _Flags(
        value("i", flags.fold), value("m", flags.multi), value("s", flags.dot_all), value("U", flags.ungreedy)
    )


def _complement(ranges: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    result, start = [], 0
    for low, high in sorted(ranges):
        if ord(low) > start:
            result.append((chr(start), chr(ord(low) - 1)))
        start = ord(high) + 1
    return (*result, (chr(start), "\U0010ffff"))


def _moved(fragment: list[_Step], by: int) -> list[_Step]:
    """Return a fragment that begins later: its targets count from the start of the whole."""
    return [
        (step[0], *(_target(step, index) + by for index in range(1, len(step))))
        if step[0] in ("split", "jump")
        else step
        for step in fragment
    ]


def _sized(fragment: list[_Step]) -> list[_Step]:
    if len(fragment) > _MAX_PROGRAM:
        raise PatternError("expression too large")
    return fragment


def _copies(fragment: list[_Step], least: int, most: int, *, lazy: bool) -> list[_Step]:
    if len(fragment) * max(least, most, 1) > _MAX_PROGRAM:
        raise PatternError("expression too large")
    result: list[_Step] = []
    for _ in range(least):
        result = [*result, *_moved(fragment, len(result))]
    if most < 0:
        begin = len(result)
        end = begin + len(fragment) + 2
        result += [_split(begin + 1, end, lazy=lazy), *_moved(fragment, begin + 1), ("jump", begin)]
    else:
        size = len(fragment) + 1
        end = len(result) + (most - least) * size
        for _ in range(most - least):
            begin = len(result)
            result += [_split(begin + 1, end, lazy=lazy), *_moved(fragment, begin + 1)]
    return _sized(result)


def _split(into: int, past: int, *, lazy: bool) -> _Step:
    return ("split", past, into) if lazy else ("split", into, past)
