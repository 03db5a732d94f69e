"""Whatever is wrong in a file of a user, the message has our words, and none of pydantic's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from scheduler.catalog import OPTIONS, SecondarySchedulerOptionsArgs, descriptors
from scheduler.config import (
    ConfigurationError,
    InvalidSpecError,
    KubeSchedulerConfiguration,
    RebalancerSpec,
    RebalanceSettings,
    RebalanceSettingsError,
    SecondarySchedulerSpec,
    load_configuration,
    parse_spec,
    read_rebalance_settings,
    read_rebalancer_spec,
)
from stacks.checking import check
from stacks.settings import StackSettings

PYDANTIC = re.compile(r"[Ii]nput|Field required|Value error|pydantic|valid (string|integer|number|dict)")
WRONG: tuple[Any, ...] = ("x", -7, [1], {"x": 1}, None)


def wrong_documents(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """Each field of a model, and of those within it, with a wrong value of each kind; and an unknown field."""
    yield {"nobodyKnowsThis": 1}
    for name, field in model.model_fields.items():
        key = field.alias or name
        yield from ({key: value} for value in WRONG)
        for inner in _models(field.annotation):
            for document in wrong_documents(inner):
                yield {key: [document] if re.search(r"\b(list|tuple)\[", str(field.annotation)) else document}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _configuration(data: dict[str, Any]) -> None:
    load_configuration({"apiVersion": "kubescheduler.config.k8s.io/v1", **KIND, **data}, source="c")


KIND = {"kind": "KubeSchedulerConfiguration"}


def _args(plugin: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: _configuration(
        {"profiles": [{"schedulerName": "s", "pluginConfig": [{"name": plugin, "args": data}]}]}
    )


def _stack(data: dict[str, Any]) -> None:
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}
    check(values, (), {}, Path(), with_kubeconfig=False)


READERS: dict[str, tuple[type[BaseModel], Callable[[dict[str, Any]], Any]]] = {
    "configuration": (KubeSchedulerConfiguration, _configuration),
    "SecondaryScheduler": (SecondarySchedulerSpec, lambda data: parse_spec({"spec": data})),
    "settings of the rebalancer": (RebalanceSettings, read_rebalance_settings),
    "spec.rebalance": (RebalancerSpec, read_rebalancer_spec),
    "stack": (StackSettings, _stack),
    OPTIONS: (SecondarySchedulerOptionsArgs, _args(OPTIONS)),
    **{each.name: (each.args_model, _args(each.name)) for each in descriptors() if each.args_model is not None},
}


@pytest.mark.parametrize("name", READERS)
def test_no_message_has_a_word_of_pydantic(name: str) -> None:
    model, read = READERS[name]
    refused = 0
    for document in wrong_documents(model):
        try:
            read(document)
        except ConfigurationError as error:
            messages = [problem.message for problem in error.problems]
        except (InvalidSpecError, RebalanceSettingsError) as error:
            messages = str(error).splitlines()
        else:
            continue
        refused += 1
        assert [message for message in messages if PYDANTIC.search(message)] == [], document
    assert refused > 0
