"""The guides about plugins: the code in them does what they say."""

from __future__ import annotations

import ast
import random
import re
import types
from collections.abc import Callable
from typing import Any

import pytest

from scheduler import catalog, framework, plugins
from scheduler.catalog import registry
from scheduler.catalog.descriptor import PluginDescriptor, points
from scheduler.core import decide, explain
from scheduler.framework import rules
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


def test_the_fast_plugin_of_the_page_about_plugins_takes_30_lines_and_is_asked_once_about_a_node() -> None:
    page = (CHECKOUT / "docs" / "writing-a-plugin.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(class Licences.*?)```", page, re.DOTALL)
    assert code.count("\n") <= 30
    names = dict(vars(framework))
    exec(code, names)
    profile = only_scores("ImageLocality")
    licences = type("Standing", (names["Licences"],), {"name": "ImageLocality"})
    filters = type(
        "Standing", (names["Licences"],), {"name": "NodePorts", "pre_filter": lambda *_: (None, framework.SUCCESS)}
    )
    run = framework.ProfileRunner(
        runner(profile).effective, {**plugins.FACTORIES, "ImageLocality": licences, "NodePorts": filters}
    )
    near = {"labels": {"example.com/licence-server": "near"}}
    capacity: dict[str, dict[str, Any]] = {"n0": {}, "n1": {}, "n2": near, "n3": near}
    amounts = {"n0": "0", "n1": "2", "n2": "1", "n3": "2"}
    state = cluster(*[node(name, allocatable={LICENCES: amounts[name]}, **fields) for name, fields in capacity.items()])
    scored_nodes: list[str] = []
    plugin: Any = run.plugins["ImageLocality"]
    plugin.score_node = lambda state, pod, node, pods: (
        scored_nodes.append(node.name) or licences.score_node(plugin, state, pod, node, pods)
    )
    placed = []
    for number in range(4):
        info = pod(f"p{number}", container("1m", requests={LICENCES: "1"}))
        placement = framework.conclude(decide(state.snapshot(NOW), info, run, random.Random(1)))
        placed.append(placement.node)
        if placement.node is not None:
            state.assume(info, placement.node, NOW)
    assert sorted(placed[:3]) == ["n2", "n3", "n3"]
    assert placed[3] == "n1"
    assert scored_nodes == ["n0", "n1", "n2", "n3"]
    rejected = framework.conclude(
        decide(state.snapshot(NOW), pod("p", container("1m", requests={LICENCES: "2"})), run, random.Random(1))
    )
    assert "4 no licence left" in rejected.message
    assert set(re.findall(r"^\| `([A-Z]+)`", page, re.MULTILINE)) == {word.name for word in framework.Reads}


FORMER = """
from scheduler.framework import DependsOn, Locality, LocalPlugin, ScorePlugin, part_of, score_by_node

class Former(ScorePlugin, LocalPlugin):
    name = "ImageLocality"

    def __init__(self, args, context):
        self.count = 0

    def score(self, state, pod, view, rows):
        return score_by_node(self, state, pod, view, rows)

    def score_node(self, state, pod, node, pods):
        self.count += 1
        return 7

    def locality(self, pod, view):
        return Locality(scores=DependsOn.NODE, part=part_of(pod.spec.tolerations), rate=lambda view, row: 7)
"""


def test_a_plugin_of_0_1_runs_and_is_asked_about_every_node_with_one_warning() -> None:
    rules._warn_of_former.cache_clear()
    names: dict[str, Any] = {"__name__": "former"}
    with pytest.warns(RuntimeWarning) as warned:
        exec(FORMER, names)
    assert len(warned) == 1
    profile = framework.ProfileRunner(
        runner(only_scores("ImageLocality")).effective, {**plugins.FACTORIES, "ImageLocality": names["Former"]}
    )
    state = cluster(node("n0"), node("n1"))
    for name in "pqr":
        placement = framework.conclude(decide(state.snapshot(NOW), pod(name), profile, random.Random(1)))
        assert placement.total == 7
    plugin: Any = profile.plugins["ImageLocality"]
    assert plugin.count == 6
    with pytest.raises(ImportError):
        exec("from scheduler.framework import Localities", {})


def test_the_in_tree_guide_names_files_that_exist() -> None:
    made_by_the_reader = {"scheduler/plugins/fewestpods.py", "tests/unit/scheduler/plugins/test_fewestpods.py"}
    cited = {span for span in re.findall(r"`([\w./]+/[\w./]+)`", text_of(IN_TREE)) if "*" not in span}
    assert not [path for path in sorted(cited - made_by_the_reader) if not (CHECKOUT / path).exists()]
