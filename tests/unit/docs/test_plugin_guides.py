"""The guides about plugins: what they have the reader type works, and the code in them does what they say."""

from __future__ import annotations

import ast
import os
import re
import shutil
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler import catalog, plugins
from scheduler.catalog import registry
from scheduler.catalog.descriptor import PluginDescriptor, points
from scheduler.framework.locality import DependsOn, Locality
from tests.support.guides import CHECKOUT, Shell, blocks, text_of

IN_TREE, OUT_OF_TREE = "add-an-in-tree-plugin", "write-an-out-of-tree-plugin"
_CODE = re.compile(r"^```python\n# (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_commands_for_an_out_of_tree_plugin_do_what_the_guide_shows(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(CHECKOUT / "examples", clone / "examples")
    (clone / ".venv").symlink_to(CHECKOUT / ".venv")
    environment = {
        "PATH": f"{clone}/.venv/bin:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COLUMNS": "160",
        # The build tool of the example is installed here already; a reader's pip fetches it.
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    shell = Shell(clone, environment, {}, tmp_path / "shell")
    for block in blocks(OUT_OF_TREE):
        shell.follow(block)


def test_the_files_that_the_out_of_tree_guide_lists_are_the_examples() -> None:
    example = CHECKOUT / "examples" / "scheduler-timestamp"
    listed = set(re.findall(r"^\| `([\w./]+)` \|", text_of(OUT_OF_TREE), re.MULTILINE))
    assert listed == {
        str(file.relative_to(example)) for file in example.rglob("*.*") if file.suffix in (".py", ".toml")
    }
    assert 'SchedulerTimestamp = "scheduler_timestamp:DESCRIPTOR"' in (example / "pyproject.toml").read_text()


def test_the_plugin_of_the_in_tree_guide_passes_the_test_of_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    code = dict(_CODE.findall(text_of(IN_TREE)))
    assert set(code) == {"descriptor", "plugin", "place", "test"}
    descriptor = eval(code["descriptor"], {"PluginDescriptor": PluginDescriptor, "points": points})
    place: dict[str, str] = ast.literal_eval("{" + code["place"] + "}")
    module_name, _, class_name = place["FewestPods"].partition(":")
    module = types.ModuleType(f"{plugins.__name__}.{module_name}")
    exec(code["plugin"], module.__dict__)
    monkeypatch.setitem(registry._BUILT_IN, descriptor.name, descriptor)
    monkeypatch.setattr(plugins, "_CONSTRUCTORS", {**plugins._CONSTRUCTORS, **place})
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    assert catalog.lookup("FewestPods") is descriptor
    assert hasattr(module, class_name)
    namespace: dict[str, Any] = {}
    exec(code["test"], namespace)
    tests: list[Callable[[], None]] = [value for name, value in namespace.items() if name.startswith("test_")]
    assert len(tests) == 1
    for run in tests:
        run()


def test_the_page_about_plugins_shows_a_locality_that_the_framework_accepts() -> None:
    page = (CHECKOUT / "docs" / "writing-a-plugin.md").read_text(encoding="utf-8")
    (expression,) = re.findall(r"return (Locality\(.*\))", page)
    declared = eval(expression, {"Locality": Locality, "DependsOn": DependsOn})
    assert (declared.filters, declared.scores) == (DependsOn.PODS, DependsOn.NODE)
    assert set(re.findall(r"^\| `([A-Z]+)`", page, re.MULTILINE)) == {member.name for member in DependsOn}


def test_the_in_tree_guide_names_files_that_exist() -> None:
    made_by_the_reader = {"scheduler/plugins/fewestpods", "tests/unit/scheduler/plugins/test_fewestpods.py"}
    cited = {span for span in re.findall(r"`([\w./]+/[\w./]+)`", text_of(IN_TREE)) if "*" not in span}
    assert not [path for path in sorted(cited - made_by_the_reader) if not (CHECKOUT / path).exists()]
