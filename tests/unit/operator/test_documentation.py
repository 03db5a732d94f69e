"""docs/operator.md names tests: each of them exists."""

import ast
import re
from pathlib import Path

import pytest

from scheduler.config import SpecExtensions

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/operator.md").read_text()
PLACES = {"": ROOT / "tests/unit/operator", "(I)": ROOT / "tests/integration/operator"}


def named():
    """File and beginning of a test's name, "" for a whole file, as the tables' last column gives them."""
    rows = [
        line.split("|")[-2] for line in PAGE.splitlines() if line.startswith("|") and "`test" in line.split("|")[-2]
    ]
    for row in rows:
        for part in row.split(";"):
            place = "(I)" if "(I)" in part else ""
            file = None
            for span in re.findall(r"`([^`]+)`", part):
                if span.startswith("tests/"):
                    file = ROOT / span
                elif span.startswith("test_"):
                    file = PLACES[place] / f"{span}.py"
                    yield file, ""
                else:
                    assert file is not None, f"a test without its file: {part}"
                    yield file, span.removesuffix("…")


@pytest.mark.parametrize(
    ("file", "name"), sorted(set(named()), key=str), ids=lambda value: getattr(value, "stem", value)
)
def test_a_test_that_the_page_names_exists(file, name):
    tree = ast.parse(file.read_text())
    tests = [
        node.name.removeprefix("test_")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
    ]
    assert any(test.startswith(name) for test in tests)


def test_the_page_names_many():
    assert len(set(named())) > 50


def test_each_field_that_upstream_does_not_have_is_on_the_page():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name.partition(".")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert {field.alias for field in SpecExtensions.model_fields.values()} <= named
