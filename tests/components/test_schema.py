"""Components keep the constructor that other languages need, `(name, args, opts)`: the SDK makes a schema of it.

The analyzer does not read annotations that are kept as text, nor `X | None` or Literal: they are resolved for it here.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest
from pulumi.provider.experimental.analyzer import Analyzer

import components
from components.settings import CheckedConfiguration
from scheduler.config import OptionalObjects

COMPONENTS = [
    member
    for member in (getattr(components, name) for name in components.__all__)  # loaded when asked for
    if inspect.isclass(member) and issubclass(member, pulumi.ComponentResource)
]
# Fields that only Python can give, so that they must not be required. `needs`: other languages say it with the resource
# option dependsOn; `instances`: pairs, and `custom_plugins`: tuples, which a schema does not know; the others are
# objects of the program.
PYTHON_ONLY = {
    "needs",
    "instances",
    "custom_plugins",
    "adopting",
    "beside",
    "checked",
    "load_watcher",
    "opt_in",
    "rebalance",
    "page",
}
# Parts of an installation that take objects of the program, such as its settings, or pairs, as required arguments.
PYTHON_COMPONENTS = {
    *(
        "AdmissionPolicies",
        "DirectScheduler",
        "LoadWatcher",
        "OlmOperator",
        "OperandRollout",
        "OperatorNetwork",
        "OptIn",
    ),
    *(
        "OptInRecord",
        "Page",
        "Rebalancer",
        "SchedulerAlerts",
        "SchedulerDashboard",
        "SchedulerRoles",
        "SecondaryScheduler",
    ),
}
IN_A_SCHEMA = [component for component in COMPONENTS if component.__name__ not in PYTHON_COMPONENTS]


def as_analyzer_reads(hint: Any) -> Any:
    if typing.get_origin(hint) is typing.Literal:
        return str
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if set(typing.get_args(hint)) == {str, CheckedConfiguration}:
            return str  # what has been checked is for Python, too
        return typing.Union[tuple(as_analyzer_reads(argument) for argument in typing.get_args(hint))]  # noqa: UP007
    return hint


def annotations_of(described_class: type) -> dict[str, Any]:
    """Its own and those of the Args that it extends."""
    lineage = (
        kind for kind in reversed(described_class.__mro__) if kind.__module__.startswith(("components", "scheduler"))
    )
    return {name: hint for kind in lineage for name, hint in inspect.get_annotations(kind, eval_str=True).items()}


def described(hint: Any) -> Iterator[type]:
    """Our own dataclasses and settings in an annotation, and those within them."""
    if inspect.isclass(hint) and (dataclasses.is_dataclass(hint) or issubclass(hint, OptionalObjects)):
        yield hint
        for inner in annotations_of(hint).values():
            yield from described(inner)
    for argument in typing.get_args(hint):
        yield from described(argument)


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.__name__)
def test_a_component_takes_a_name_its_args_and_options(component: type[pulumi.ComponentResource]) -> None:
    parameters = inspect.signature(component.__init__, eval_str=True).parameters
    assert list(parameters) == ["self", "name", "args", "opts"]
    assert dataclasses.is_dataclass(parameters["args"].annotation)
    assert parameters["opts"].annotation == pulumi.ResourceOptions | None
    assert parameters["opts"].default is None


@pytest.mark.parametrize("component", IN_A_SCHEMA, ids=lambda component: component.__name__)
def test_the_sdk_makes_a_schema_of_a_component(
    component: type[pulumi.ComponentResource], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = inspect.signature(component.__init__, eval_str=True).parameters["args"].annotation
    monkeypatch.setattr(component.__init__, "__annotations__", {"args": arguments})
    for described_class in {component, *described(arguments)}:
        own = inspect.get_annotations(described_class, eval_str=True)
        hints = own if described_class is component else annotations_of(described_class)
        readable = {name: as_analyzer_reads(hint) for name, hint in hints.items() if name not in PYTHON_ONLY}
        monkeypatch.setattr(described_class, "__annotations__", readable)
    definition = Analyzer("secondary-scheduler").analyze([component])["component_definitions"][component.__name__]
    fields = {field.name: field for field in dataclasses.fields(arguments)}
    assert set(definition.inputs_mapping.values()) == fields.keys() - PYTHON_ONLY
    missing = dataclasses.MISSING
    left_out = [field for name, field in fields.items() if name in PYTHON_ONLY]
    assert [field.name for field in left_out if field.default is missing is field.default_factory] == []
