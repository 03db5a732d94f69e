"""What is kept of a configuration: the fields that we know, and no secret."""

from __future__ import annotations

import pytest

from scheduler.catalog import OPTIONS, descriptors
from secondary_scheduler.cli.installedconfigurations import keep_configuration
from tests.unit.cli.bundle.installation import CONFIGURATION


def test_a_valid_configuration_is_kept_whole_but_for_its_secrets() -> None:
    kept = keep_configuration(CONFIGURATION)
    assert kept["profiles"][0]["plugins"] == CONFIGURATION["profiles"][0]["plugins"]
    assert kept["clientConnection"] == CONFIGURATION["clientConnection"]
    assert "unknownField" not in kept


@pytest.mark.parametrize("plugin", [each.name for each in descriptors() if each.args_model] + [OPTIONS])
def test_every_plugin_s_args_are_known(plugin: str) -> None:
    entry = {"name": plugin, "args": {"apiVersion": "v", "unknown": "x"}}
    kept = keep_configuration({"profiles": [{"pluginConfig": [entry]}]})
    assert kept == {"profiles": [{"pluginConfig": [{"name": plugin, "args": {"apiVersion": "v"}}]}]}


def test_texts_and_lists_are_bounded() -> None:
    raw = {"clientConnection": {"kubeconfig": "x" * 100_000}, "profiles": [{"schedulerName": "s"}] * 10_000}
    kept = keep_configuration(raw)
    assert len(kept["profiles"]) == 500
    assert len(kept["clientConnection"]["kubeconfig"]) < 9000
