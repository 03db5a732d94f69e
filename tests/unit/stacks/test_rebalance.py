"""The setting rebalance of a stack: what follows from it, and which values are refused, at which key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import ConfigurationError
from stacks.checking import check

GOOD: dict[str, Any] = {
    "cluster": {"clusterIdentifier": "test", "kubernetesVersion": "1.36"},
    "schedulerImage": "localhost/secondary-scheduler/kube-scheduler:0.1.0",
    "operatorImage": "localhost/secondary-scheduler/operator:0.1.0",
    "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
    "metricProvider": {"type": "Prometheus", "address": "https://prometheus:9090"},
}


@pytest.fixture
def problems(tmp_path: Path, kubeconfig: Path) -> Any:
    """Returns problems and warnings of a stack with this setting, by path."""

    def judge(rebalance: dict[str, Any], **settings: Any) -> dict[str, str]:
        values = {**GOOD, **settings, "rebalance": rebalance}
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
        try:
            stack, profile, _ = check(texts, set(), {"KUBECONFIG": str(kubeconfig)}, tmp_path)
        except ConfigurationError as error:
            return {problem.path: problem.message for problem in error.problems}
        assert stack.rebalance.mode == rebalance.get("mode", "Off")
        return {f"warning {each.path}": each.message for each in profile.warnings if each.path.startswith("rebalance")}

    return judge


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"mode": "Off"},
        {"mode": "Predictive"},
        {"mode": "Automatic", "evictionLimits": {"workload": "20%"}, "namespaces": {"include": ["shop"]}},
        {"mode": "Automatic", "image": "registry.example.com/secondary-scheduler/operator:0.1.0"},
    ],
)
def test_what_can_work_is_taken(problems: Any, setting: dict[str, Any]) -> None:
    assert problems(setting) == {}


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ({"mode": "on"}, "rebalance.mode"),
        ({"mode": "Automatic", "image": "no image"}, "rebalance.image"),
        ({"mode": "Automatic", "evictionLimits": {"workload": "200%"}}, "rebalance.evictionLimits.workload"),
        ({"mode": "Automatic", "minReplicas": 0}, "rebalance.minReplicas"),
        ({"colour": "red"}, "rebalance.colour"),
        ({"mode": "Automatic", "runBy": "Nobody"}, "rebalance.runBy"),
    ],
)
def test_a_wrong_value_is_refused_at_its_key(problems: Any, setting: dict[str, Any], path: str) -> None:
    assert path in problems(setting)


def test_without_load_there_is_nothing_to_go_by(problems: Any) -> None:
    (message,) = problems({"mode": "Automatic"}, plugins={}, metricProvider={}).values()
    assert "needs a plugin that reads the nodes' load" in message


def test_two_sources_of_load_are_refused(problems: Any) -> None:
    other = {"type": "Prometheus", "address": "https://thanos:9091"}
    plugins = GOOD["plugins"]
    profiles = [
        {"schedulerName": "one", "plugins": plugins},
        {"schedulerName": "two", "plugins": plugins, "metricProvider": other},
    ]
    refused = problems({"mode": "Automatic"}, profiles=profiles, plugins={})
    assert "needs one load source for all profiles, and they read 2" in refused["rebalance.mode"]


def test_keys_without_a_mode_are_a_warning(problems: Any) -> None:
    assert "no effect" in problems({"minReplicas": 3})["warning rebalance.mode"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"installMode": "direct"}, "mode direct makes no SecondaryScheduler"),
        ({"operator": {"flavour": "upstream"}}, "the CRD of upstream's operator has no such field"),
    ],
)
def test_what_the_api_server_would_prune_is_refused_with_what_to_do(
    problems: Any, settings: dict[str, Any], reason: str
) -> None:
    refused = problems({"mode": "Automatic", "runBy": "Operator"}, **settings)["rebalance.runBy"]
    assert refused == f"must be Program: {reason}, so spec.rebalance would be pruned; set it so, or leave it out"
    assert problems({"mode": "Automatic", "runBy": "Program"}, **settings) == {}
    assert problems({"mode": "Automatic"}, **settings) == {}
