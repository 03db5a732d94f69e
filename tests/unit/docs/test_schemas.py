"""The JSON Schemas for editors: current, and of one mind with the models about the examples."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.jsonschemas import mistakes
from tools import schemas

ROOT = Path(__file__).parents[3]
HEADER = re.compile(r"^# yaml-language-server: \$schema=(\S+)$", re.MULTILINE)
STACKS = sorted(ROOT.glob("stacks/Pulumi.*.yaml"))
CONFIGURATIONS = sorted(ROOT.glob("examples/configurations/*.yaml"))


def stack_mistakes(document: Any) -> list[str]:
    schema = json.loads((schemas.DIRECTORY / schemas.STACK).read_text())
    return list(mistakes(document, schema, schema))


def configuration_mistakes(document: Any) -> list[str]:
    schema = json.loads((schemas.DIRECTORY / schemas.CONFIGURATION).read_text())
    return list(mistakes(document, schema, schema))


@pytest.fixture
def main_loop() -> Iterator[None]:
    """The main thread's event loop, which pulumi asks for as it is imported: async tests before this one closed it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def test_what_is_checked_in_is_current(main_loop: None) -> None:
    derived = dict(schemas.derived())
    assert {file: file.read_text() for file in derived} == derived, "run: make schemas"


@pytest.mark.parametrize("file", [*STACKS, *CONFIGURATIONS], ids=lambda file: file.name)
def test_an_example_names_its_schema_and_is_valid(file: Path) -> None:
    text = file.read_text()
    named = HEADER.search(text)
    assert named is not None
    schema_file = (file.parent / named[1]).resolve()
    schema = json.loads(schema_file.read_text())
    assert schema_file.name == (schemas.STACK if file in STACKS else schemas.CONFIGURATION)
    assert list(mistakes(yaml.safe_load(text), schema, schema)) == []


@pytest.fixture
def stack() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "stacks/Pulumi.local.yaml").read_text())
    return document


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("schedulerNam", "x", "$.config.secondary-scheduler:schedulerNam"),
        ("logLevel", "Loud", "$.config.secondary-scheduler:logLevel"),
        ("replicas", "two", "$.config.secondary-scheduler:replicas"),
        ("replicas", 10, "$.config.secondary-scheduler:replicas"),
        ("plugins", {"scores": {}}, "$.config.secondary-scheduler:plugins.scores"),
        (
            "plugins",
            {"score": {"enabled": [{"name": "TargetLoadPacking", "args": {"targetUtilisation": 1}}]}},
            "$.config.secondary-scheduler:plugins.score.enabled[0].args.targetUtilisation",
        ),
        (
            "plugins",
            {"score": {"enabled": [{"name": "TargetLoadPacking", "args": {"metricProvider": {}}}]}},
            "$.config.secondary-scheduler:plugins.score.enabled[0].args.metricProvider",
        ),
    ],
)
def test_a_mistake_in_a_stack_file_is_seen_where_it_is(stack: dict[str, Any], key: str, value: Any, place: str) -> None:
    changed = copy.deepcopy(stack)
    changed["config"][f"secondary-scheduler:{key}"] = value
    assert any(mistake.startswith(f"{place}:") for mistake in stack_mistakes(changed)), stack_mistakes(changed)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metricProvider", {}),
        ("replicas", "2"),
        ("metricProvider", {"type": "Prometheus", "address": "https://p"}),
        ("prometheusToken", {"secure": "v1:abc"}),
        ("plugins", {"score": {"enabled": [{"name": "MyOwn", "args": {"anything": 1}}]}}),
    ],
)
def test_other_forms_of_a_setting_are_valid(stack: dict[str, Any], key: str, value: Any) -> None:
    stack["config"][f"secondary-scheduler:{key}"] = value
    stack["config"]["fleet:wave"] = "canary"
    assert stack_mistakes(stack) == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta1"}, "$.apiVersion"),
        ({"colour": "blue"}, "$.colour"),
        ({"leaderElection": {"leaseDuration": 15}}, "$.leaderElection.leaseDuration"),
        (
            {"profiles": [{"pluginConfig": [{"name": "Coscheduling", "args": {"permit": 1}}]}]},
            "$.profiles[0].pluginConfig",
        ),
    ],
)
def test_a_mistake_in_a_configuration_is_seen_where_it_is(change: dict[str, Any], place: str) -> None:
    document = {**yaml.safe_load(CONFIGURATIONS[0].read_text()), **change}
    assert any(mistake.startswith(place) for mistake in configuration_mistakes(document))


def test_durations_quantities_and_plugins_of_others_are_valid() -> None:
    document = yaml.safe_load(CONFIGURATIONS[0].read_text())
    document["leaderElection"]["leaseDuration"] = "1m30s"
    document["profiles"][0]["pluginConfig"].append({"name": "MyOwn", "args": {"anything": 1}})
    document["profiles"][0]["pluginConfig"].append({"name": "NodeResourcesFit"})
    assert configuration_mistakes(document) == []
