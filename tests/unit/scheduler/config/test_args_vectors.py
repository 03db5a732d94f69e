"""Upstream's tests of v1 args, for the plugins that the catalogue has."""

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.catalog import lookup
from scheduler.catalog.schedulerplugins import SCHEDULER_PLUGINS
from scheduler.config import Configuration, ConfigurationError, load_configuration, path_text

VECTORS = json.loads((Path(__file__).parents[3] / "conformance/vectors/plugin_args.json").read_text())
IN_TREE = next(case for case in VECTORS if case["name"].endswith("v1 unspecified args"))["expected"]["plugin_config"]


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in VECTORS if case["kind"] == kind]


def filled(plugin: str, values: dict[str, Any]) -> dict[str, Any]:
    """The args with defaults, without empty fields, which upstream's output leaves out."""
    return without_empty(lookup(plugin).args_model.model_validate(values).to_dict())


def without_empty(data: dict[str, Any]) -> dict[str, Any]:
    cleaned = {key: without_empty(value) if isinstance(value, dict) else value for key, value in data.items()}
    return {key: value for key, value in cleaned.items() if value not in ("", [], {}, False)}


SINCE = {"NodeResourceTopologyMatch": {"preemptionMode": "Disabled"}}
"""Defaults of fields that came after 0.34.7, of which the vectors are."""


@pytest.mark.parametrize("case", of_kind("args_defaults"))
def test_defaults_are_upstreams(case: dict[str, Any]) -> None:
    assert filled(case["plugin"], case["input"]) == without_empty(case["expected"]) | SINCE.get(case["plugin"], {})


@pytest.mark.parametrize("plugin", sorted(name for name in IN_TREE if lookup(name)))
def test_in_tree_defaults_are_upstreams(plugin: str) -> None:
    assert filled(plugin, {}) == without_empty(IN_TREE[plugin])


@pytest.mark.parametrize(
    "case", [pytest.param(vector, id=vector["name"]) for vector in VECTORS if vector["kind"] == "args_validate"]
)
def test_validation_gives_upstreams_messages(case: dict[str, Any]) -> None:
    args = lookup(case["plugin"]).args_model.model_validate(case["input"])
    problems = [f"{path_text(loc)}: {message}".split("; allowed are")[0] for loc, message in args.check()]
    expected = case["expected"]
    if "error_contains" in expected:
        assert len(problems) == 1
        assert expected["error_contains"] in problems[0]
    else:
        joined = ", ".join(problems)
        assert expected["error"] == (None if not problems else f"[{joined}]" if len(problems) > 1 else joined)


@pytest.mark.parametrize(
    "case", [pytest.param(vector, id=vector["name"]) for vector in VECTORS if vector["kind"] == "config_decode"]
)
def test_a_whole_configuration_decodes_as_upstreams_does(case: dict[str, Any]) -> None:
    # Upstream's test decodes without building a profile: whether a plugin is enabled does not matter there.
    data, expected = case["input"], case["expected"]
    for profile in data["profiles"]:
        names = [{"name": entry["name"]} for entry in profile["pluginConfig"]]
        sort = [entry for entry in names if entry["name"] == "TopologicalSort"] or [{"name": "PrioritySort"}]
        queue_sort = {"disabled": [{"name": "*"}], "enabled": sort}
        profile["plugins"] = {"multiPoint": {"enabled": names}, "queueSort": queue_sort}

    def load() -> Configuration:
        return load_configuration(json.dumps(data), source="f", flavour="scheduler-plugins@0.34")

    if "error" in expected:
        with pytest.raises(ConfigurationError) as refused:
            load()
        (problem,) = refused.value.problems
        assert problem.path == "profiles[0].pluginConfig[0].args.kubeConfigPath"
        assert problem.message in expected["error"]
        return
    profile = load().profiles[0]
    decoded = {name: without_empty(args.to_dict()) for name, args in profile.plugin_args.items()}
    assert decoded == {name: without_empty(args) for name, args in expected["plugin_config"].items()}


def test_the_vectors_cover_every_plugin_that_has_args() -> None:
    assert len(of_kind("args_defaults")) == 19
    upstreams = {each.name for each in SCHEDULER_PLUGINS if each.args_model and "scheduler-plugins" in each.flavours}
    covered = {vector["plugin"] for vector in VECTORS if vector["kind"] == "args_defaults"}
    assert covered | {"Peaks", "NodeMetadata"} == upstreams
    assert sum(1 for name in IN_TREE if lookup(name)) == 10
