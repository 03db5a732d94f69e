"""Warnings about hard limits on the load, which autoscalers do not see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.config import load_configuration

AUTOSCALERS = "Cluster Autoscaler and Karpenter compare requests only"
ENABLED = {point: {"enabled": [{"name": "HighLoadFilter"}]} for point in ("preFilter", "filter")}


def warnings(
    options: dict[str, Any] | None = None,
    plugins: dict[str, Any] = ENABLED,
    flavour: str = "ours",
    **args: Any,
) -> list[tuple[str, str]]:
    own = {"watcherAddress": "http://w:2020", **args}
    config = [{"name": "HighLoadFilter", "args": own}]
    if options is not None:
        config.append({"name": "SecondarySchedulerOptions", "args": options})
    data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "s", "plugins": plugins, "pluginConfig": config}],
    }
    configuration = load_configuration(json.dumps(data), source="f", flavour=flavour)
    return [(problem.path, problem.message) for problem in configuration.warnings]


def test_a_limit_that_steps_back_needs_no_warning() -> None:
    assert warnings() == []
    assert warnings({"load": {"limit": {"exempt": []}}}) == []


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"load": {"limit": {"whenAllExceed": "reject"}}}, "load.limit.whenAllExceed"),
        ({"compatibility": "upstream"}, "compatibility"),
    ],
)
def test_a_limit_that_keeps_pods_waiting_names_the_autoscalers_that_add_no_node(
    options: dict[str, Any], place: str
) -> None:
    [(path, message)] = warnings(options)
    assert path == f"profiles[0].pluginConfig[1].args.{place}"
    assert AUTOSCALERS in message


def test_the_images_of_others_cannot_step_back() -> None:
    assert any(AUTOSCALERS in message for _, message in warnings(flavour="custom"))


def test_a_limit_that_is_not_enabled_needs_no_warning() -> None:
    assert warnings({"load": {"limit": {"whenAllExceed": "reject"}}}, {}) == []
