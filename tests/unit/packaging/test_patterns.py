"""Regular expressions of what is shipped, read without being matched."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.load import answers

ROOT = Path(__file__).resolve().parents[3]
CHARACTERS = ("IN", "LITERAL", "NOT_LITERAL", "ANY")
PACKAGES = ("scheduler", "secondary_scheduler", "components", "stacks", "policy")


def patterns(source: str) -> Iterator[tuple[int, str | bytes]]:
    """Yield the literal patterns that a module gives to `re`, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str | bytes)
        ):
            yield node.lineno, node.args[0].value


def repeats_a_group_possessively(parsed: Any) -> bool:
    """Tell whether a parsed pattern has a possessive repetition of more than one character, or an atomic group."""
    for operation, argument in parsed:
        name = str(operation)
        if name == "ATOMIC_GROUP":
            return True
        if name == "POSSESSIVE_REPEAT" and not (len(argument[2]) == 1 and str(argument[2][0][0]) in CHARACTERS):
            return True
        parts = argument if isinstance(argument, tuple | list) else (argument,)
        nested = [each for part in parts for each in (part if isinstance(part, list) else [part])]
        if any(repeats_a_group_possessively(each) for each in nested if isinstance(each, re._parser.SubPattern)):  # type: ignore[attr-defined]
            return True
    return False


@pytest.mark.parametrize(
    ("pattern", "refused"),
    [
        (rb"(?: [^\r]*+)?+x", True),
        (rb"(a(?:b++c)*+)d", True),
        (rb"(?>ab)", True),
        (rb"x|(?:y(?:a|b+c)*+)", True),
        (rb"[ \t]*+x++[^y]?+(?:ab)*", False),
    ],
)
def test_possessive_groups_are_told_from_possessive_characters(pattern: bytes, refused: bool) -> None:
    assert repeats_a_group_possessively(re._parser.parse(pattern)) is refused  # type: ignore[attr-defined]


def test_no_pattern_needs_what_python_before_3_11_5_does_wrong() -> None:
    """The possessive repetition of a group (gh-106052); Debian 12 has 3.11.2."""
    read, wrong = 0, []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for line, pattern in patterns(path.read_text(encoding="utf-8")):
                read += 1
                if repeats_a_group_possessively(re._parser.parse(pattern)):  # type: ignore[attr-defined]
                    wrong.append(f"{path.relative_to(ROOT)}:{line}: {pattern!r}")
    assert not wrong
    assert read > 50


def test_neither_does_a_pattern_that_is_put_together_of_parts() -> None:
    built = [value for value in vars(answers).values() if isinstance(value, re.Pattern)]
    assert len(built) > 4
    for pattern in built:
        assert not repeats_a_group_possessively(re._parser.parse(pattern.pattern))  # type: ignore[attr-defined]
