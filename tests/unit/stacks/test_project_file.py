"""Pulumi.yaml declares the settings of stacks/settings.py, and pins what it must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from stacks.checking import check

ROOT = Path(__file__).resolve().parents[3]
PROJECT: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
DECLARED: dict[str, Any] = PROJECT["config"]


def test_no_type_is_declared_because_the_engine_would_stop_at_the_first_wrong_one() -> None:
    assert not [key for key, declaration in DECLARED.items() if declaration.keys() != {"description", "default"}]


def test_the_declared_defaults_mean_what_a_stack_file_without_these_keys_means() -> None:
    defaults = {key: declaration["default"] for key, declaration in DECLARED.items()}
    passed = {key: value if isinstance(value, str) else json.dumps(value) for key, value in defaults.items()}
    image = {"schedulerImage": "localhost/secondary-scheduler/kube-scheduler:0.2.0"}
    declared, absent = (check(values, (), {}, with_kubeconfig=False)[0] for values in ({**passed, **image}, image))
    assert declared == absent


def test_the_project_pins_no_plugins_so_the_engine_uses_the_official_ones() -> None:
    assert "plugins" not in PROJECT


def test_the_users_environment_is_that_of_pulumi_install() -> None:
    assert PROJECT["runtime"] == {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}}
    assert PROJECT["stackConfigDir"] == "stacks"
