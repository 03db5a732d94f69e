"""Pulumi.yaml and the models in stacks/settings.py speak of the same keys and defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from components.settings import (
    OptInSettings,
    PageSettings,
    PluginSettings,
    RebalancerSettings,
    ShadowSettings,
    SharedNodesSettings,
)
from stacks.settings import AlertSettings, ClusterSettings, OperatorSettings, OptionalObjects, StackSettings

ROOT = Path(__file__).resolve().parents[3]
PROJECT: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
DECLARED: dict[str, Any] = PROJECT["config"]
FIELDS = {field.alias or name: field for name, field in StackSettings.model_fields.items()}


def test_every_setting_is_declared_with_a_description() -> None:
    assert set(DECLARED) == set(FIELDS)
    assert all(declaration["description"] for declaration in DECLARED.values())


def test_no_type_is_declared_because_the_engine_would_stop_at_the_first_wrong_one() -> None:
    assert not [key for key, declaration in DECLARED.items() if declaration.keys() != {"description", "default"}]


@pytest.mark.parametrize("key", sorted(FIELDS))
def test_declared_defaults_are_the_models_or_empty_for_required_settings(key: str) -> None:
    field = FIELDS[key]
    empty: Any = {} if _holds_a_model(field.annotation) else ""
    empty = [] if getattr(field.annotation, "__origin__", None) is tuple else empty
    absent = (
        None, (), ClusterSettings(), PluginSettings(), OperatorSettings(), OptInSettings(), OptionalObjects(),
        SharedNodesSettings(), AlertSettings(), RebalancerSettings(), ShadowSettings(), PageSettings(),
    )  # fmt: skip
    expected = empty if field.is_required() or field.default in absent else field.default
    assert DECLARED[key]["default"] == expected


def _holds_a_model(annotation: Any) -> bool:
    kinds = [annotation, *get_args(annotation)]
    return any(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds)


def test_the_project_pins_no_plugins_so_the_engine_uses_the_official_ones() -> None:
    assert "plugins" not in PROJECT


def test_the_users_environment_is_that_of_pulumi_install() -> None:
    assert PROJECT["runtime"] == {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}}
    assert PROJECT["stackConfigDir"] == "stacks"
