"""A stack's configuration for a command that asks its source of load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.stackfile import read_stack_file

STACKS = Path(__file__).parents[3] / "stacks"


def test_a_stack_file_gives_the_configuration_that_follows_from_it() -> None:
    file = STACKS / "Pulumi.openshift-prod.yaml"
    configuration = read_stack_file(file, file.read_text()).source
    assert configuration is not None
    assert "TargetLoadPacking" in configuration.profiles[0].enabled


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedulerImage": "x"}, "schedulerImage"),
        ({"metricProvider": {"address": {"fromEnv": "NOT_SET_HERE"}}}, "refers to NOT_SET_HERE, which is not set"),
    ],
)
def test_nothing_about_the_source_is_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], message: str
) -> None:
    monkeypatch.chdir(STACKS)
    file = tmp_path / "stack.yaml"
    config = {f"secondary-scheduler:{key}": value for key, value in settings.items()}
    file.write_text("config: " + json.dumps(config))
    with pytest.raises(CommandError, match=message):
        read_stack_file(file, file.read_text())
