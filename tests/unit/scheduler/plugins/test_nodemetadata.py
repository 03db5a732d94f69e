"""NodeMetadata: scores of the Go code, and what differs from it on purpose."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import ConfigurationError, load_configuration
from scheduler.core import decide, explain
from scheduler.framework import ProfileRunner, conclude
from scheduler.plugins.nodemetadata import MAX_CHARACTERS
from tests.unit.scheduler.core.builders import NOW, cluster, node, only_scores, pod, runner

NAME = "NodeMetadata"
VECTORS = json.loads((Path(__file__).parents[3] / "conformance/vectors/node_metadata.json").read_text())


def profile(compatibility: str = "safe", **args: str) -> ProfileRunner:
    args = {
        "metadataKey": "k",
        "metadataSource": "Annotation",
        "metadataType": "Number",
        "scoringStrategy": "Highest",
    } | args
    return runner(only_scores(NAME), {NAME: args}, compatibility=compatibility)


def scores(scheduler: ProfileRunner, *values: str, at: float = NOW) -> list[int]:
    state = cluster(*(node(f"n{number:02}", annotations={"k": value}) for number, value in enumerate(values)))
    return [each.scores[NAME].normalized for _, each in explain(state.snapshot(at), pod("p"), scheduler).nodes()]


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["case"]) for vector in VECTORS])
def test_scores_are_those_of_the_go_code(vector: dict[str, Any], compatibility: str) -> None:
    args = {name: vector[name] for name in ("metadataType", "scoringStrategy", "timestampFormat") if name in vector}
    assert scores(profile(compatibility, **args), *vector["values"]) == vector["scores"]


def test_a_label_is_read_where_the_source_says_so() -> None:
    labelled = node("a", labels={"k": "9"}, annotations={"k": "1"})
    state = cluster(labelled, node("b", labels={"k": "5"}, annotations={"k": "2"}), node("c", annotations={"k": "99"}))
    explanation = explain(state.snapshot(NOW), pod("p"), profile(metadataSource="Label"))
    assert {name: each.scores[NAME].normalized for name, each in explanation.nodes()} == {"a": 100, "b": 1, "c": 0}


def test_a_changed_annotation_changes_the_next_decision() -> None:
    state, scheduler = cluster(node("a", annotations={"k": "2"}), node("b", annotations={"k": "1"})), profile()
    rng = random.Random(0)
    assert conclude(decide(state.snapshot(NOW), pod("p"), scheduler, rng)).node == "a"
    state.upsert_node(node("a", annotations={"k": "0"}))
    assert conclude(decide(state.snapshot(NOW), pod("q"), scheduler, rng)).node == "b"


def test_numbers_far_apart_do_not_overflow_as_upstreams_do() -> None:
    values = ("1000000000000000000", "200000000000000000", "0")
    assert scores(profile(), *values) == [100, 20, 1]
    assert scores(profile("upstream"), *values) == [7, 2, 1]


def test_times_count_by_themselves_and_upstreams_by_their_age_at_most_292_years() -> None:
    args = {"metadataType": "Timestamp", "scoringStrategy": "Newest", "timestampFormat": "2006"}
    assert scores(profile(**args), "1000", "1500", "2000") == [1, 50, 100]
    assert scores(profile("upstream", **args), "1000", "1500", "2000") == [1, 1, 100]


def test_values_that_are_too_long_are_not_read() -> None:
    assert scores(profile(), "0" * (MAX_CHARACTERS - 1) + "7", "0" * MAX_CHARACTERS + "9") == [1, 0]


FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins: {{score: {{enabled: [{{name: NodeMetadata}}]}}}}
  pluginConfig: {config}
"""
GOOD = {"metadataKey": "k", "metadataSource": "Label", "metadataType": "Timestamp", "scoringStrategy": "Oldest"}


def problems_of(config: list[dict[str, Any]], flavour: str = "ours") -> dict[str, str]:
    try:
        load_configuration(FILE.format(config=json.dumps(config)), source="f", flavour=flavour)
    except ConfigurationError as refused:
        return {problem.path.removeprefix("profiles[0].pluginConfig"): problem.message for problem in refused.problems}
    return {}


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"metadataKey": ""}, "metadataKey", "cannot be empty"),
        ({"metadataSource": "Taint"}, "metadataSource", 'must be either "Label" or "Annotation"'),
        ({"metadataType": "number"}, "metadataType", 'must be either "Number" or "Timestamp"'),
        ({"scoringStrategy": "Highest"}, "scoringStrategy", '"Newest" or "Oldest" for metadataType Timestamp'),
        ({"metadataType": "Number"}, "scoringStrategy", '"Highest" or "Lowest" for metadataType Number'),
        ({"timestampFormat": "%Y-%m-%d"}, "timestampFormat", "no layout of Go"),
    ],
)
def test_args_that_cannot_work_are_refused(change: dict[str, str], field: str, message: str) -> None:
    assert problems_of([{"name": NAME, "args": GOOD}]) == {}
    problems = problems_of([{"name": NAME, "args": GOOD | change}])
    assert list(problems) == [f"[0].args.{field}"]
    assert message in problems[f"[0].args.{field}"]


@pytest.mark.parametrize("flavour", ["ours", "scheduler-plugins@0.35"])
def test_the_plugin_without_args_is_refused(flavour: str) -> None:
    needed = "metadataKey, metadataSource, metadataType, scoringStrategy"
    assert problems_of([], flavour) == {"": f"NodeMetadata has no args, and needs {needed}"}
