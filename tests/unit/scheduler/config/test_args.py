# ruff: noqa: E501 -- tables whose rows are whole messages, one to a line
"""pluginConfig: strict decoding and the checks of each plugin's args."""

from typing import Any

import msgspec
import pytest

from scheduler.catalog import format_duration, parse_duration
from scheduler.config import Configuration, ConfigurationError, load_configuration


def load(*config: dict[str, Any], **options: object) -> Configuration:
    data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "mine", "pluginConfig": list(config)}],
    }
    return load_configuration(msgspec.json.encode(data).decode(), source="f", **options)


def problems(*config: dict[str, Any], **options: object) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(*config, **options)
    prefix = "profiles[0].pluginConfig[0]."
    return [
        f"{problem.path}: {problem.message}".removeprefix(prefix).removeprefix("args.")
        for problem in caught.value.problems
    ]


def args(name: str, **values: Any) -> dict[str, Any]:
    return {"name": name, "args": values}


W = "http://watcher:2020"

BAD = {
    "target too high": (args("TargetLoadPacking", targetUtilization=101), "targetUtilization: 101 is not in the range 1 to 100"),
    "target zero": (args("TargetLoadPacking", targetUtilization=0), "targetUtilization: 0 is not in the range 1 to 100"),
    "target fraction": (args("TargetLoadPacking", targetUtilization=40.5), "targetUtilization: must be an integer, not 40.5"),
    "multiplier a number": (args("TargetLoadPacking", defaultRequestsMultiplier=1.5), "defaultRequestsMultiplier: must be a string, not 1.5; put it in quotes"),
    "multiplier no number": (args("TargetLoadPacking", defaultRequestsMultiplier="abc"), 'defaultRequestsMultiplier: unable to parse DefaultRequestsMultiplier: "abc" is not a number such as "1.5"'),
    "multiplier infinite": (args("TargetLoadPacking", defaultRequestsMultiplier="inf"), "defaultRequestsMultiplier: must be a finite number of 0 or more"),
    "misspelt field": (args("TargetLoadPacking", targetUtilisation=40), 'targetUtilisation: unknown field "targetUtilisation"'),
    "Token": (args("TargetLoadPacking", metricProvider={"Token": "x"}), 'metricProvider.Token: unknown field "Token"'),
    "literal token": (args("TargetLoadPacking", metricProvider={"type": "Prometheus", "token": "x"}), "metricProvider.token: a token in a ConfigMap can be read by everyone who can read ConfigMaps"),
    "provider type": (args("TargetLoadPacking", metricProvider={"type": "prometheus"}), 'metricProvider.type: invalid MetricProvider.Type, got "prometheus": allowed are KubernetesMetricsServer, Prometheus, SignalFx'),
    "empty watcher": (args("TargetLoadPacking", watcherAddress=""), 'metricProvider.type: invalid MetricProvider.Type, got "": allowed are KubernetesMetricsServer, Prometheus, SignalFx'),
    "watcher no URL": (args("TargetLoadPacking", watcherAddress="host:2020"), 'watcherAddress: "host:2020" is not a URL: it starts with http:// or https://'),
    "quantity": (args("TargetLoadPacking", watcherAddress=W, defaultRequests={"cpu": "1 core"}), 'defaultRequests.cpu: "1 core" is not a quantity: write a number with a suffix, such as "500m" or "1Gi"'),
    "no such plugin": (args("TargetLoadPackin"), 'name: plugin "TargetLoadPackin" does not exist'),
    "removed plugin": (args("EBSLimits"), 'name: Invalid value: "EBSLimits": was invalid in version "v1"'),
    "args for none": (args("NodeName", x=1), "args: plugin NodeName takes no args"),
    "wrong kind": (args("TargetLoadPacking", kind="PeaksArgs"), "kind: args for plugin TargetLoadPacking were not of type TargetLoadPackingArgs, got PeaksArgs"),
    "strategy without type": (args("NodeResourcesFit", scoringStrategy={"resources": []}), 'scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'),
    "ratio without shape": (args("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}), "scoringStrategy.requestedToCapacityRatio.shape: at least one point must be specified"),
    "shape not rising": (args("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}]}}), "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: utilization values must be sorted in increasing order"),
    "shape score": (args("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 50, "score": 11}]}}), "scoringStrategy.requestedToCapacityRatio.shape[0].score: 11 not in valid range [0, 10]"),
    "weight": (args("NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}), "scoringStrategy.resources[0].weight: resource weight of cpu not in valid range [1, 100], got 101"),
    "group with slash": (args("NodeResourcesFit", ignoredResourceGroups=["a/b"]), "ignoredResourceGroups[0]: resource group name can't contain '/'"),
    "balanced weight": (args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": 2}]), "resources[0].weight: must be 1"),
    "added affinity": (args("NodeAffinity", addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}), "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: must be specified when `operator` is 'In' or 'NotIn'"),
    "operator": (args("NodeAffinity", addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "in"}]}]}}), "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: \"in\" is not allowed"),
    "preemption": (args("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0), "minCandidateNodesPercentage: minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be zero"),
    "hard weight": (args("InterPodAffinity", hardPodAffinityWeight=101), "hardPodAffinityWeight: 101 is not in valid range [0-100]"),
    "system constraints": (args("PodTopologySpread", defaultConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]), 'defaultingType: Invalid value: "System": when .defaultConstraints are not empty'),
    "bind timeout": (args("VolumeBinding", bindTimeoutSeconds=-1), "bindTimeoutSeconds: invalid BindTimeoutSeconds, should not be a negative value"),
    "filter timeout": (args("DynamicResources", filterTimeout="-1s"), "filterTimeout: must not be negative"),
    "compatibility": (args("SecondarySchedulerOptions", compatibility="go"), 'compatibility: "go" is not allowed'),
    "refresh": (args("SecondarySchedulerOptions", load={"refreshSeconds": 0}), "load.refreshSeconds: must be at least 1"),
    "max age": (args("SecondarySchedulerOptions", load={"maxAgeSeconds": 29}), "load.maxAgeSeconds: must be at least refreshSeconds (30)"),
    "window": (args("SecondarySchedulerOptions", load={"window": "15 minutes"}), 'load.window: "15 minutes" is not a PromQL duration such as 15m'),
    "limit of CPU": (args("HighLoadFilter", watcherAddress=W, usageThresholds={"cpu": 101}), "usageThresholds.cpu: Invalid value: 101: must be between 0 and 100"),
    "limit of memory": (args("HighLoadFilter", watcherAddress=W, usageThresholds={"memory": -1}), "usageThresholds.memory: Invalid value: -1: must be between 0 and 100"),
    "limit interval": (args("HighLoadFilter", watcherAddress=W, metricsUpdateIntervalSeconds=0), "metricsUpdateIntervalSeconds: Invalid value: 0: must be greater than 0"),
    "limit expiration": (args("HighLoadFilter", watcherAddress=W, nodeMetricExpirationSeconds=29), "nodeMetricExpirationSeconds: Invalid value: 29: must be greater than or equal to metricsUpdateIntervalSeconds"),
    "limit two sources": (args("HighLoadFilter", watcherAddress=W, metricProvider={"type": "Prometheus"}), "metricProvider: must be empty when watcherAddress is set"),
    "limit metrics server": (args("HighLoadFilter", metricProvider={"address": "https://p"}), "metricProvider: address, token, and insecureSkipVerify are not supported for KubernetesMetricsServer"),
    "limit Prometheus": (args("HighLoadFilter", metricProvider={"type": "Prometheus"}), 'metricProvider.address: must be an absolute HTTP or HTTPS URL: "" is not a URL: it starts with http:// or https://'),
    "limit SignalFx": (args("HighLoadFilter", metricProvider={"type": "SignalFx"}), 'metricProvider.type: Unsupported value: "SignalFx": supported values: "KubernetesMetricsServer", "Prometheus"'),
    "limit field": (args("HighLoadFilter", watcherAddress=W, usageThreshold={}), 'usageThreshold: unknown field "usageThreshold"'),
    "when all exceed": (args("SecondarySchedulerOptions", load={"limit": {"whenAllExceed": "wait"}}), 'load.limit.whenAllExceed: "wait" is not allowed'),
    "exempt": (args("SecondarySchedulerOptions", load={"limit": {"exempt": ["daemonset"]}}), 'load.limit.exempt[0]: "daemonset" is not allowed'),
}  # fmt: skip


@pytest.mark.parametrize(("entry", "expected"), BAD.values(), ids=BAD.keys())
def test_bad_args_are_refused_at_their_field(entry: dict[str, Any], expected: str) -> None:
    assert expected in problems(entry)


def test_a_literal_token_can_be_allowed_explicitly() -> None:
    provider = {"type": "Prometheus", "address": "https://p", "token": "secret"}
    entry = args("TargetLoadPacking", metricProvider=provider)
    configuration = load(entry, allow_token_in_config_map=True)
    assert any("can be read by everyone" in warning.message for warning in configuration.warnings)
    with pytest.raises(ConfigurationError) as caught:
        load(entry)
    assert "secret" not in str(caught.value).replace("a Secret", "")


@pytest.mark.parametrize("token", [12345, True, ["hush"], {"hush": "hush"}])
def test_a_token_of_the_wrong_type_is_not_printed(token: Any) -> None:
    provider = {"type": "Prometheus", "address": "https://p", "token": token}
    with pytest.raises(ConfigurationError) as caught:
        load(args("TargetLoadPacking", metricProvider=provider))
    assert "metricProvider.token: must be a string" in str(caught.value)
    assert "12345" not in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_problem_is_one_printable_line_whatever_the_file_holds() -> None:
    (line,) = problems(args("TargetLoadPacking", metricProvider={"type": "x\ny\x1b[31m"}))
    with pytest.raises(ConfigurationError) as caught:
        load(args("TargetLoadPacking", metricProvider={"type": "x\ny\x1b[31m"}))
    assert str(caught.value).isprintable()
    assert "\n" in line, "as data the value is what it was"


def test_args_twice_are_refused() -> None:
    assert problems(args("NodeResourcesFit"), args("NodeResourcesFit")) == [
        'profiles[0].pluginConfig[1].name: Duplicate value: "NodeResourcesFit"'
    ]


def test_kind_and_version_inside_args_are_optional_and_may_be_right() -> None:
    entry = args("NodeResourcesFit", kind="NodeResourcesFitArgs", apiVersion="kubescheduler.config.k8s.io/v1")
    assert load(entry).profiles[0].args("NodeResourcesFit").strategy.type == "LeastAllocated"


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"watcherAddress": "http://w:2020/"}, "watcher:http://w:2020"),
        ({"metricProvider": {"type": "Prometheus", "address": "https://p/"}}, "Prometheus:https://p"),
        ({}, "KubernetesMetricsServer:"),
        ({"metricProvider": {"address": "https://p"}}, "KubernetesMetricsServer:https://p"),
    ],
)
def test_equal_load_sources_have_equal_keys(values: dict[str, Any], key: str) -> None:
    plugins = {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}
    data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "mine", "plugins": plugins, "pluginConfig": [args("TargetLoadPacking", **values)]}
        ],
    }
    configuration = load_configuration(msgspec.json.encode(data).decode(), source="f", external_load=True)
    assert configuration.profiles[0].args("TargetLoadPacking").source_key() == key


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("100ms", 0.1),
        ("0", 0.0),
        ("-2s", -2.0),
        (".5s", 0.5),
        ("1h0m1s", 3601.0),
    ],
)
def test_durations_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "1 s", "1d", "1m30", "x1s", "1s x", None, 15, True])
def test_an_invalid_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (15.0, "15s"),
        (90.0, "1m30s"),
        (3600.0, "1h0m0s"),
        (0.1, "100ms"),
        (0.0, "0s"),
        (-2.5, "-2.5s"),
        (600.0, "10m0s"),
    ],
)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
