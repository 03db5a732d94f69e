"""The preview of an update that changes the CRD: its SecondaryScheduler is not judged by the CRD that is replaced.

That the engine calls the hook is shown in test_recorded_stacks.py, and what the API server would say otherwise in
tests/e2e/test_upgrade_from_0_1.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from pulumi.resource_hooks import ResourceHookArgs

import components
from components.crd import load_manifest
from components.schema_change import SchemaChange
from components.secondary_scheduler import SecondaryScheduler, SecondarySchedulerArgs
from tests.components.graph import register

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What stands for an unknown value between the SDK and the engine."""
IMAGE = "registry.example.com/secondary-scheduler/kube-scheduler:0.2.0"


def spec_of(definition: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def as_in_0_1(definition: dict[str, Any]) -> None:
    credentials = spec_of(definition)["properties"]["metricCredentials"]
    del credentials["properties"]["address"]


def described_otherwise(definition: dict[str, Any]) -> None:
    spec_of(definition)["properties"]["metricCredentials"]["description"] = "Other words."


def labelled(definition: dict[str, Any]) -> None:
    definition["metadata"]["labels"] = {"a": "b"}


def with_another_pattern(definition: dict[str, Any]) -> None:
    spec_of(definition)["properties"]["flavour"]["pattern"] = "^$"


def with_a_field_named_description(definition: dict[str, Any]) -> None:
    spec_of(definition)["properties"]["description"] = {"type": "string"}


def notices(change: Callable[[dict[str, Any]], None]) -> bool:
    old = copy.deepcopy(load_manifest())
    change(old)
    noticed = SchemaChange("crd")
    noticed.notice(ResourceHookArgs("urn", "id", "name", "type", new_inputs=load_manifest(), old_inputs=old))
    return noticed.seen


@pytest.mark.parametrize("change", [as_in_0_1, with_another_pattern, with_a_field_named_description])
def test_a_crd_that_accepts_other_objects_is_noticed(change: Callable[[dict[str, Any]], None]) -> None:
    assert notices(change)


@pytest.mark.parametrize("change", [described_otherwise, labelled, lambda _: None])
def test_other_words_are_no_change(change: Callable[[dict[str, Any]], None]) -> None:
    assert not notices(change)


def wait_for(caplog: pytest.LogCaptureFixture, *, crd_changes: bool) -> Any:
    def program() -> None:
        changes = pulumi.Output.from_input(crd_changes)
        SecondaryScheduler("s", SecondarySchedulerArgs("ns", IMAGE, "config", "hash", crd_changes=changes))

    with caplog.at_level("INFO"):
        graph = register(program, config={}, preview=True)
    return graph.only("SecondaryScheduler").manifest["metadata"]["annotations"]["pulumi.com/waitFor"]


def test_the_provider_cannot_ask_the_server_about_an_object_of_a_changing_crd(caplog: pytest.LogCaptureFixture) -> None:
    """The provider has no dry run of an object with a value that is unknown."""
    assert wait_for(caplog, crd_changes=True) == UNKNOWN
    assert "checks it in the update, not in this preview" in caplog.text


def test_the_provider_asks_the_server_about_any_other(caplog: pytest.LogCaptureFixture) -> None:
    assert "condition=Available" in wait_for(caplog, crd_changes=False)
    assert not caplog.text


def test_programs_are_previewed_with_the_mocks_of_the_sdk() -> None:
    """They know no hooks."""
    graph = register(
        lambda: components.SecondarySchedulerCrd("crd", components.SecondarySchedulerCrdArgs()), config={}, preview=True
    )
    assert graph.only("CustomResourceDefinition")
