"""Upstream's tests of v1 args, for the plugins that the catalogue has."""

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.catalog import lookup

VECTORS = json.loads((Path(__file__).parents[3] / "conformance/vectors/plugin_args.json").read_text())
DEFAULTS = [
    pytest.param(case, id=case["name"])
    for case in VECTORS
    if case["kind"] == "args_defaults" and lookup(case["plugin"])
]
IN_TREE = next(case for case in VECTORS if case["name"].endswith("v1 unspecified args"))["expected"]["plugin_config"]


def filled(plugin: str, values: dict[str, Any]) -> dict[str, Any]:
    """The args with defaults, without what is empty: upstream's output leaves such fields out."""
    return without_empty(lookup(plugin).args_model.model_validate(values).to_dict())


def without_empty(data: dict[str, Any]) -> dict[str, Any]:
    cleaned = {key: without_empty(value) if isinstance(value, dict) else value for key, value in data.items()}
    return {key: value for key, value in cleaned.items() if value not in ("", [], {}, False)}


@pytest.mark.parametrize("case", DEFAULTS)
def test_defaults_are_upstreams(case: dict[str, Any]) -> None:
    assert filled(case["plugin"], case["input"]) == without_empty(case["expected"])


@pytest.mark.parametrize("plugin", sorted(name for name in IN_TREE if lookup(name)))
def test_in_tree_defaults_are_upstreams(plugin: str) -> None:
    assert filled(plugin, {}) == without_empty(IN_TREE[plugin])


def test_the_vectors_cover_something() -> None:
    assert len(DEFAULTS) >= 2
    assert sum(1 for name in IN_TREE if lookup(name)) >= 8
