"""The table of kube-scheduler's versions, and which row of it a profile follows."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from scheduler import catalog
from scheduler.catalog import KUBERNETES_VERSIONS, ExtensionPoint, default_plugins, lookup, minor_of, nearest_kubernetes
from scheduler.config import Configuration, ConfigurationError, completed, load_configuration
from scheduler.observe import Metrics

VERSIONS = ("1.34", "1.35", "1.36", "1.37", "1.38")


def loaded(
    minor: int | None = None, *, options: dict[str, Any] | None = None, flavour: str = "ours", **args: Any
) -> Configuration:
    entries = [{"name": name, "args": value} for name, value in args.items()]
    if options is not None:
        entries.append({"name": "SecondarySchedulerOptions", "args": options})
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "tested", "pluginConfig": entries}],
    }
    return load_configuration(json.dumps(document), source="test", flavour=flavour, cluster_minor=minor)


def version_of(configuration: Configuration) -> str:
    return configuration.profiles[0].kubernetes.name


@pytest.mark.parametrize(
    ("minor", "version"),
    [(None, "1.34"), (29, "1.34"), (34, "1.34"), (35, "1.35"), (37, "1.37"), (38, "1.38"), (39, "1.38")],
)
def test_a_profile_follows_the_cluster_as_far_as_the_table_reaches(minor: int | None, version: str) -> None:
    assert version_of(loaded(minor)) == version


@pytest.mark.parametrize("minor", [None, 34, 37])
def test_a_version_in_the_options_wins(minor: int | None) -> None:
    assert version_of(loaded(minor, options={"kubernetesVersion": "1.36"})) == "1.36"


@pytest.mark.parametrize("named", ["1.33", "1.39", "2.36", "36", "1.36.x", ""])
def test_a_version_that_is_not_in_the_table_is_refused_with_those_that_are(named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(options={"kubernetesVersion": named})
    (problem,) = caught.value.problems
    assert problem.loc[-1] == "kubernetesVersion"
    assert all(f'"{version}"' in problem.message for version in VERSIONS)


def test_an_image_of_another_family_behaves_as_what_it_is_built_from() -> None:
    assert version_of(loaded(37, flavour="scheduler-plugins@0.35")) == "1.35"
    assert version_of(loaded(37, flavour="scheduler-plugins@0.29")) == "1.34"


@pytest.mark.parametrize(
    ("text", "minor"),
    [("v1.36.3", 36), ("1.37", 37), ("1.34+", 34), ("v1.35.4+rke2r1", 35), ("v1.36.0-eks-1", 36), ("v2.0.0", None)],
)
def test_minors_are_read_from_what_api_servers_say(text: str, minor: int | None) -> None:
    assert minor_of(text) == minor


@pytest.mark.parametrize(
    ("version", "added", "weight"), [("1.34", [], 0), ("1.35", [], 2), ("1.36", ["NodeDeclaredFeatures"], 2)]
)
def test_default_plugins_of_a_version_are_those_of_the_one_before_and_what_it_adds(
    version: str, added: list[str], weight: int
) -> None:
    plugins = list(default_plugins(nearest_kubernetes(minor_of(version) or 0)))
    assert [plugin.name for plugin in plugins][19:] == added
    assert next(plugin.default_weight for plugin in plugins if plugin.name == "DynamicResources") == weight


def test_1_37_asks_node_name_first() -> None:
    filters = [plugin.name for plugin in loaded(37).profiles[0].plugins(ExtensionPoint.FILTER)]
    assert filters[:2] == ["NodeName", "NodeUnschedulable"]
    assert filters[-1] == "NodeDeclaredFeatures"
    before = [plugin.name for plugin in loaded(36).profiles[0].plugins(ExtensionPoint.FILTER)]
    assert before[:2] == ["NodeUnschedulable", "NodeName"]


def test_every_plugin_of_the_table_is_in_the_catalogue() -> None:
    for row in catalog.KUBERNETES_VERSIONS.values():
        assert [name for name in row.default_plugins if lookup(name) is None] == []


RATIO = {"type": "RequestedToCapacityRatio", "resources": [{"name": "cpu", "weight": 1}]}
SHAPE = {"requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}]}}


@pytest.mark.parametrize(
    ("strategy", "field", "message"),
    [
        ({**RATIO, "type": "LeastAllocated", **SHAPE}, "requestedToCapacityRatio", "must be nil when type is not"),
        (RATIO, "requestedToCapacityRatio", "must be specified when type is RequestedToCapacityRatio"),
        ({**RATIO, "requestedToCapacityRatio": {"shape": []}}, "shape", "at least one point must be specified"),
    ],
)
def test_1_36_refuses_parameters_of_the_ratio_without_its_type_and_the_type_without_them(
    strategy: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(36, NodeResourcesFit={"scoringStrategy": strategy})
    (problem,) = caught.value.problems
    assert problem.loc[-1] == field
    assert message in problem.message


def test_1_34_accepts_left_over_parameters_of_the_ratio() -> None:
    strategy = {**RATIO, "type": "LeastAllocated", **SHAPE}
    assert version_of(loaded(34, NodeResourcesFit={"scoringStrategy": strategy})) == "1.34"


def test_devices_are_waited_for_ten_minutes_since_1_36() -> None:
    assert loaded(35).profiles[0].args("DynamicResources").to_dict() == {"filterTimeout": "10s"}
    expected = {"filterTimeout": "10s", "bindingTimeout": "10m0s"}
    assert loaded(36).profiles[0].args("DynamicResources").to_dict() == expected
    assert "bindingTimeout: 10m0s" in completed(loaded(36))
    with pytest.raises(ConfigurationError, match="feature gate is disabled"):
        loaded(35, DynamicResources={"bindingTimeout": "5m"})
    with pytest.raises(ConfigurationError, match="at least 1 second"):
        loaded(36, DynamicResources={"bindingTimeout": "1ms"})


def test_a_shape_of_volumes_needs_a_version_that_scores_them() -> None:
    shape = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
    with pytest.raises(ConfigurationError, match="StorageCapacityScoring is disabled"):
        loaded(36, VolumeBinding=shape)
    assert loaded(37, VolumeBinding=shape).profiles[0].args("VolumeBinding").to_dict()["shape"] == shape["shape"]
    assert loaded(37).profiles[0].args("VolumeBinding").to_dict()["shape"][0] == {"utilization": 0, "score": 10}
    assert "shape" not in loaded(36).profiles[0].args("VolumeBinding").to_dict()


def test_metrics_of_newer_versions_are_metrics_of_ours_and_become_fewer() -> None:
    registered = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in Metrics().registry.collect()
    }
    later = [set(nearest_kubernetes(minor).later_metrics) for minor in KUBERNETES_VERSIONS]
    assert later[0] <= registered
    assert later[0] == later[1] > later[2] > later[3] == later[4] == set()


def test_metrics_that_are_called_stable_or_beta_are_metrics_of_ours_and_only_rise() -> None:
    registered = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in Metrics().registry.collect()
    }
    levels = [nearest_kubernetes(minor).metric_levels for minor in KUBERNETES_VERSIONS]
    assert levels[-1].keys() <= registered
    for older, newer in pairwise(levels):
        assert older.items() <= newer.items()
    assert levels[1]["scheduler_pending_pods"] == "STABLE"
    assert "scheduler_goroutines" not in levels[1]
    assert levels[2]["scheduler_goroutines"] == "BETA"
