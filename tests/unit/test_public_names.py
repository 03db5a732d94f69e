"""What each package's door lists is pinned: a public name appears or goes on purpose, with a line in this file's data.

`PIN=1 pytest tests/unit/test_public_names.py` writes the data again; read the difference before you commit it.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

PINNED = Path(__file__).with_name("public_names.json")
ROOT = Path(__file__).parents[2]
LAZY = [
    path
    for package in ("scheduler", "secondary_scheduler", "components")
    for path in (ROOT / package).rglob("__init__.py")
    if "lazy_attributes(" in path.read_text(encoding="utf-8")
]
DOORS = (
    *("scheduler.kube.primitives", "scheduler.kube.model", "scheduler.kube.client"),
    *("scheduler.catalog", "scheduler.config", "scheduler.operand", "scheduler.framework", "scheduler.state"),
    *("scheduler.helpers", "scheduler.preemption", "scheduler.core", "scheduler.plugins", "scheduler.observe"),
    *("scheduler.load", "scheduler.engine", "secondary_scheduler.cli", "secondary_scheduler.rebalancing"),
    *("components", "components.settings"),
)


@pytest.fixture
def event_loop_of_the_thread() -> Iterator[None]:
    """Pulumi asks for the thread's event loop when it is imported; an async test before this one has removed it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("event_loop_of_the_thread")
@pytest.mark.parametrize("door", DOORS)
def test_the_door_lists_what_is_pinned_and_all_of_it_exists(door: str) -> None:
    module = importlib.import_module(door)
    names = sorted(module.__all__)
    assert [name for name in names if not hasattr(module, name)] == []
    pinned = json.loads(PINNED.read_text(encoding="utf-8")) if PINNED.exists() else {}
    if os.environ.get("PIN") == "1":
        PINNED.write_text(json.dumps({**pinned, door: names}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return
    assert names == pinned.get(door), (
        "public names changed; if on purpose: PIN=1 pytest tests/unit/test_public_names.py"
    )


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
