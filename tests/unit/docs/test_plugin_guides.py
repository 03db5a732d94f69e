"""The guides about plugins: the code in them does what they say."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Callable
from typing import Any

import pytest

from scheduler import catalog, framework, plugins
from scheduler.catalog import registry
from scheduler.catalog.descriptor import PluginDescriptor, points
from scheduler.core import explain
from scheduler.framework.locality import DependsOn, Locality, part_of
from tests.support.pages import CHECKOUT, GUIDES, text_of
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, only_scores, pod, runner

IN_TREE, OUT_OF_TREE = f"{GUIDES}/add-an-in-tree-plugin.md", f"{GUIDES}/write-an-out-of-tree-plugin.md"
LICENCES = "example.com/licences"
_CODE = re.compile(r"^```python\n# (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


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


def test_the_plugin_of_the_out_of_tree_guide_scores_node_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    code = dict(_CODE.findall(text_of(OUT_OF_TREE)))
    package, module = types.ModuleType("newer_nodes"), types.ModuleType("newer_nodes.plugin")
    exec(code["descriptor"], package.__dict__)
    exec(code["plugin"], module.__dict__)
    for each in (package, module):
        monkeypatch.setitem(__import__("sys").modules, each.__name__, each)
    descriptor: PluginDescriptor = package.__dict__["DESCRIPTOR"]
    monkeypatch.setitem(registry._BUILT_IN, descriptor.name, descriptor)
    generations = {"old": "1", "new": "7", "newest": "40", "wrong": "x", "none": ""}
    nodes = [
        node(name, labels={"example.com/generation": value} if value else {}) for name, value in generations.items()
    ]
    profile = only_scores("NewerNodes")
    explanation = explain(cluster(*nodes).snapshot(NOW), pod("p"), runner(profile))
    scores = {name: verdict.scores["NewerNodes"] for name, verdict in explanation.nodes()}
    assert {name: score.raw for name, score in scores.items()} == {
        "old": 10, "new": 70, "newest": 100, "wrong": 0, "none": 0,
    }  # fmt: skip
    assert scores["new"].weighted == 210, "the descriptor's default weight counts"


def test_the_page_about_plugins_shows_a_locality_that_the_framework_accepts() -> None:
    page = (CHECKOUT / "docs" / "writing-a-plugin.md").read_text(encoding="utf-8")
    pod = types.SimpleNamespace(spec=types.SimpleNamespace(tolerations=()))
    names = {"Locality": Locality, "DependsOn": DependsOn, "part_of": part_of, "pod": pod}
    named = re.findall(r"return (Locality\(.*\))", page)
    declared, shared = (eval(expression, names) for expression in named if "_rule" not in expression)
    assert (declared.filters, declared.scores) == (DependsOn.PODS, DependsOn.NODE)
    assert (shared.filters, shared.part) == (DependsOn.NODE, part_of(()))
    assert set(re.findall(r"^\| `([A-Z]+)`", page, re.MULTILINE)) == {member.name for member in DependsOn}


def test_the_rule_of_the_page_about_plugins_says_of_many_nodes_what_it_says_of_each() -> None:
    page = (CHECKOUT / "docs" / "writing-a-plugin.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(class Licences.*?)```", page, re.DOTALL)
    names = dict(vars(framework))
    exec(code, names)
    plugin: Any = names["Licences"]()
    capacity = {"n0": "0", "n1": "1", "n2": "2"}
    state = cluster(*[node(name, allocatable={LICENCES: amount}) for name, amount in capacity.items()])
    view, info = state.snapshot(NOW), pod("p", container(requests={LICENCES: "2"}))
    rule = plugin.locality(info, view).filter_rule(framework.OneNode(view))
    assert [any(rule(row)) for row in view.rows.tolist()] == [True, True, False]
    assert (plugin.filter(framework.CycleState(), info, view, view.rows).codes != 0).tolist() == [True, True, False]


def test_the_in_tree_guide_names_files_that_exist() -> None:
    made_by_the_reader = {"scheduler/plugins/fewestpods.py", "tests/unit/scheduler/plugins/test_fewestpods.py"}
    cited = {span for span in re.findall(r"`([\w./]+/[\w./]+)`", text_of(IN_TREE)) if "*" not in span}
    assert not [path for path in sorted(cited - made_by_the_reader) if not (CHECKOUT / path).exists()]
