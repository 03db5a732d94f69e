"""A stack's setting `tracing` reaches the scheduler's environment and the NetworkPolicies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.config import ConfigurationError
from tests.components.graph import run_program, stack_values
from tests.components.test_admission import STATUS

SETTING = {
    "endpoint": "https://collector.example:4319",
    "samplingRatePerMillion": 250_000,
    "headersSecret": {"name": "collector"},
}
VARIABLES = [
    {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "https://collector.example:4319"},
    {"name": "OTEL_TRACES_SAMPLER", "value": "traceidratio"},
    {"name": "OTEL_TRACES_SAMPLER_ARG", "value": "0.250000"},
    {
        "name": "OTEL_EXPORTER_OTLP_HEADERS",
        "valueFrom": {"secretKeyRef": {"name": "collector", "key": "headers"}},
    },
]


def values(mode: str, setting: dict[str, Any] | None) -> dict[str, str]:
    return {**stack_values("local"), "installMode": mode, **({"tracing": json.dumps(setting)} if setting else {})}


def test_the_operator_is_told_the_variables_and_the_port(local_environment: None) -> None:
    graph = run_program(values("manifests", SETTING), preview=False, statuses=STATUS)
    spec = graph.only("SecondaryScheduler").manifest["spec"]
    assert spec["env"] == VARIABLES
    assert spec["egressPorts"] == [4319]


def test_without_an_operator_the_deployment_has_them(local_environment: None) -> None:
    graph = run_program(values("direct", SETTING), preview=False, statuses=STATUS)
    (container,) = graph.only("Deployment").manifest["spec"]["template"]["spec"]["containers"]
    assert container["env"] == VARIABLES
    policy = graph.only("NetworkPolicy").manifest["spec"]
    assert 4319 in {port["port"] for rule in policy["egress"] for port in rule["ports"]}


def test_every_attempt_is_traced_unless_the_stack_says_otherwise(local_environment: None) -> None:
    graph = run_program(values("manifests", {"endpoint": "http://collector"}), preview=False, statuses=STATUS)
    spec = graph.only("SecondaryScheduler").manifest["spec"]
    assert spec["env"] == [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector"}]
    assert spec["egressPorts"] == [80]


def test_without_the_setting_the_environment_stays_as_it_was(local_environment: None) -> None:
    graph = run_program(values("manifests", None), preview=False, statuses=STATUS)
    assert "env" not in graph.only("SecondaryScheduler").manifest["spec"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operator": {"flavour": "upstream"}, "operatorImage": "r/o:1"}, "needs this project's operator"),
        ({"schedulerImage": "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"}, "is for this project's image"),
    ],
)
def test_schedulers_and_operators_that_cannot_do_it_are_refused(
    changes: dict[str, Any], words: str, local_environment: None
) -> None:
    changed = {key: value if isinstance(value, str) else json.dumps(value) for key, value in changes.items()}
    with pytest.raises((ConfigurationError, Exception), match=words):
        run_program({**values("manifests", SETTING), **changed}, preview=True, statuses=STATUS)
