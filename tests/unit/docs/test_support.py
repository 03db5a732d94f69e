"""docs/support.md: what the code calls deprecated has a row, with the day that follows from upstream's support."""

from __future__ import annotations

import ast
import re
from datetime import date
from pathlib import Path

import pytest

from tests.support.pages import CHECKOUT, text_of

PAGE = text_of("docs/support.md")
PRODUCTION = ("scheduler", "secondary_scheduler", "components", "stacks", "policy")
DAY = re.compile(r"\d{4}-\d\d-\d\d")


def rows() -> list[list[str]]:
    """The cells of what is deprecated today."""
    table = PAGE.partition("| deprecated by upstream |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def calls_something_deprecated(source: str) -> bool:
    """Whether a module has a name or a text, other than a docstring, with the word."""
    tree = ast.parse(source)
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                words = text
            case ast.Name(id=words) | ast.FunctionDef(name=words) | ast.AsyncFunctionDef(name=words):
                pass
            case _:
                continue
        if "deprecat" in words.lower():
            return True
    return False


def test_what_the_code_calls_deprecated_has_a_row() -> None:
    modules = [file for part in PRODUCTION for file in (CHECKOUT / part).rglob("*.py")]
    assert len(modules) > 300
    calling = {
        str(file.relative_to(CHECKOUT))
        for file in modules
        if calls_something_deprecated(file.read_text(encoding="utf-8"))
    }
    assert calling == {span for _, _, module, _ in rows() for span in re.findall(r"`([^`]+)`", module)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("_DEPRECATED = 1", True),
        ("def deprecated_flags(): ...", True),
        ("warn('x is deprecated')", True),
        ("'''Deprecated.'''\nx = 1", False),
        ("def f():\n    '''Deprecated names too.'''", False),
    ],
)
def test_names_and_texts_count_and_docstrings_do_not(source: str, expected: bool) -> None:
    assert calls_something_deprecated(source) is expected


def test_the_day_is_the_end_of_the_newest_minor_that_upstream_supports() -> None:
    ends = re.findall(r"^\| 1\.\d+ \| (\d{4}-\d\d-\d\d) \|", PAGE.partition("## Kubernetes")[2], re.MULTILINE)
    assert len(ends) > 2
    assert {cells[-1] for cells in rows()} == {max(ends, key=date.fromisoformat)}


def test_the_flags_of_the_row_are_upstreams_deprecated_ones() -> None:
    section = text_of("docs/flags.md").partition("## Deprecated")[2].partition("\n## ")[0]
    flags = set(re.findall(r"^\| `(--[\w-]+)`", section, re.MULTILINE))
    assert set(re.findall(r"`(--[\w-]+)`", rows()[0][0])) <= flags


def test_the_changelog_deprecates_nothing_that_has_no_row() -> None:
    changelog = Path(CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "nothing of this project's own is deprecated" in " ".join(PAGE.split())
    assert "### Deprecated" not in changelog, "give it a row in docs/support.md, with the day until which it stays"
