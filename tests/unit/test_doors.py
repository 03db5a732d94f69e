"""What the door of a package lists is there, for a type checker and at run time."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAZY = [
    path
    for package in ("scheduler", "secondary_scheduler", "components")
    for path in (ROOT / package).rglob("__init__.py")
    if "lazy_attributes(" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("door", sorted(str(path.relative_to(ROOT)) for path in LAZY))
def test_a_type_checker_gets_the_names_that_are_imported_when_asked_for(door: str) -> None:
    branches = [node for node in ast.parse((ROOT / door).read_text(encoding="utf-8")).body if isinstance(node, ast.If)]
    (for_checkers,) = [branch for branch in branches if ast.unparse(branch.test) == "TYPE_CHECKING"]
    (at_run_time,) = [branch for branch in branches if ast.unparse(branch.test) == "not TYPE_CHECKING"]
    imported = {alias.name for node in for_checkers.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    (lazy,) = [node for node in ast.walk(at_run_time) if isinstance(node, ast.Dict)]
    assert imported == {ast.literal_eval(key) for key in lazy.keys if key is not None}


@pytest.mark.parametrize("package", ["scheduler", "scheduler.kube"])
def test_the_package_above_imports_nothing(package: str) -> None:
    text = Path(str(importlib.import_module(package).__file__)).read_text(encoding="utf-8")
    assert "import " not in text.rpartition('"""')[2]
