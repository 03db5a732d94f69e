"""The load settings of a stack reach the configuration, and problems are reported at their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.config import ConfigurationError
from stacks.checking import check

LOAD = {
    "timeoutSeconds": 3,
    "whenStale": "leaveOut",
    "whenAbsent": "leaveOut",
    "whenNoneFresh": "requests",
    "nodeLabel": "node",
    "queries": {"cpuAverage": "avg_over_time(other:rule[$window])"},
}


def values(**load: object) -> dict[str, str]:
    provider = {"type": "Prometheus", "address": "https://prometheus.example:9090", **load}
    return {
        "cluster": json.dumps({"clusterIdentifier": "test"}),
        "schedulerImage": "localhost/secondary-scheduler/kube-scheduler:0.1.0",
        "operatorImage": "localhost/secondary-scheduler/operator:0.1.0",
        "plugins": json.dumps({"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 1}]}}),
        "metricProvider": json.dumps(provider),
    }


def test_every_load_option_reaches_the_configuration_and_others_keep_their_default(kubeconfig: Path) -> None:
    environment = {"KUBECONFIG": str(kubeconfig)}
    _, profile, _ = check(values(**LOAD), set(), environment)
    load = profile.configuration.profiles[0].options.load
    assert (load.timeout_seconds, load.node_label) == (3, "node")
    assert (load.when_stale, load.when_absent, load.when_none_fresh) == ("leaveOut", "leaveOut", "requests")
    assert load.queries.cpu_average == "avg_over_time(other:rule[$window])"
    assert "node_memory" in load.queries.memory_average
    _, profile, _ = check(values(), set(), environment)
    assert profile.configuration.profiles[0].options.load.when_none_fresh == "leaveOut"


def test_a_limit_that_keeps_pods_waiting_is_warned_of_at_its_place(kubeconfig: Path) -> None:
    enabled = {"enabled": [{"name": "HighLoadFilter", "args": {"usageThresholds": {"cpu": 80}}}]}
    plugins = {"filter": enabled, "preFilter": {"enabled": [{"name": "HighLoadFilter"}]}}
    limited = {**values(limit={"whenAllExceed": "reject"}), "plugins": json.dumps(plugins)}
    _, profile, _ = check(limited, set(), {"KUBECONFIG": str(kubeconfig)})
    assert profile.configuration.profiles[0].options.load.limit.when_all_exceed == "reject"
    [message] = [
        problem.message for problem in profile.warnings if problem.path == "metricProvider.limit.whenAllExceed"
    ]
    assert "Cluster Autoscaler and Karpenter" in message


@pytest.mark.parametrize(
    ("load", "place"),
    [
        ({"whenStale": "zero"}, "metricProvider.whenStale"),
        ({"queries": {"cpu": "x"}}, "metricProvider.queries.cpu"),
        ({"nodeLabel": "a-b"}, "metricProvider.nodeLabel"),
        ({"limit": {"whenAllExceed": "wait"}}, "metricProvider.limit.whenAllExceed"),
        ({"timeoutSeconds": 0}, "metricProvider.timeoutSeconds"),
    ],
)
def test_a_problem_is_reported_at_its_place(load: dict[str, object], place: str, kubeconfig: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check(values(**load), set(), {"KUBECONFIG": str(kubeconfig)})
    assert [problem.path for problem in refused.value.problems] == [place]
