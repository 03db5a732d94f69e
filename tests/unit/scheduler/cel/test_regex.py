"""Regular expressions: the matches of Python's `re` where both agree on the syntax, and time linear in the text."""

import random
import re

import pytest

from scheduler.cel.strings import Pattern, PatternError


def nothing(steps: int) -> None:
    """No limit."""


def found(pattern: str, text: str) -> tuple[int, int] | None:
    return Pattern(pattern).search(text, 0, nothing)


def random_pattern(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", "1", "^", "$", r"\b", "(?:ab)", "[a-c1]"])
    inner = random_pattern(rng, depth - 1)
    kind = rng.randrange(6)
    if kind == 0:
        return f"(?:{inner}|{random_pattern(rng, depth - 1)})"
    if kind == 1:
        return f"(?:{inner}){rng.choice(['*', '+', '?', '*?', '+?', '??', '{2}', '{1,3}', '{2,}'])}"
    return inner + random_pattern(rng, depth - 1)


@pytest.mark.parametrize("seed", range(400))
def test_matches_are_those_of_re(seed):
    rng = random.Random(seed)
    pattern = random_pattern(rng, 3)
    for _ in range(5):
        text = "".join(rng.choice("abc1 \n") for _ in range(rng.randrange(9)))
        # "$" also matches before a last line break in Python.
        expected = re.compile(pattern.replace("$", r"\Z"), re.ASCII).search(text)
        matched = found(pattern, text)
        assert (matched is None) is (expected is None), (pattern, text)
        if matched is not None and expected is not None and not any(mark in pattern for mark in ("^", "$", r"\b")):
            # Repeated parts that match nothing end earlier in backtracking engines.
            assert matched == expected.span(), (pattern, text)


def test_time_grows_with_the_text_and_not_faster():
    for length in (100, 1000):
        steps = []
        assert Pattern("(a*)*(a|b)*c").search("a" * length, 0, steps.append) is None
        assert sum(steps) < 20 * length


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("(?i)ABC", "xabc", (1, 4)),
        ("(?i:A)b", "ab", (0, 2)),
        ("(?s).", "\n", (0, 1)),
        ("(?m)^b$", "a\nb\nc", (2, 3)),
        (r"\Qa.b\E+", "a.bb", (0, 4)),
        ("[[:digit:]]+", "a12", (1, 3)),
        ("[[:^digit:]]", "1a", (1, 2)),
        (r"\x41\x{42}", "AB", (0, 2)),
        ("(?P<name>a)(?<other>b)", "ab", (0, 2)),
        (r"[\d\-]+", "x1-2", (1, 4)),
        ("[]a]", "]", (0, 1)),
        ("a{2", "a{2", (0, 3)),
        (r"\pL+", "1äö", (1, 3)),
        ("", "x", (0, 0)),
    ],
)
def test_syntax_of_re2(pattern, text, expected):
    assert found(pattern, text) == expected


@pytest.mark.parametrize("pattern", ["(", ")", "a**", "*a", "[a", "[b-a]", r"a\C", "(?=a)", r"\1", "a{1001}", "\\"])
def test_what_re2_does_not_have_is_refused(pattern):
    with pytest.raises(PatternError):
        Pattern(pattern)


def test_a_pattern_that_needs_more_memory_than_it_may_have_is_refused():
    with pytest.raises(PatternError, match="too large"):
        Pattern(".*" + "(?:[^a]{1,900}|b{1,900})" * 9)


def test_a_pattern_that_would_grow_without_end_is_refused():
    with pytest.raises(PatternError, match="invalid repetition size"):
        Pattern("((a{100}){100}){100}")
