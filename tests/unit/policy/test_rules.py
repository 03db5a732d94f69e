"""The rules of the policy pack on properties as the SDK hands them over."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NS = "openshift-secondary-scheduler-operator"
OURS = "registry.example.com/secondary-scheduler/kube-scheduler:0.1.0"
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    score:
      enabled:
      - name: NodeResourcesFit
        weight: 3
"""
WITH_TOKEN = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args:
      metricProvider: {type: Prometheus, address: "https://prometheus.example.com", token: canary-31415926}
"""


def load_rules() -> ModuleType:
    spec = importlib.util.spec_from_file_location("policy_rules", ROOT / "policy" / "rules.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rules = load_rules()


def scheduler(**spec: Any) -> dict[str, Any]:
    wanted = {"schedulerConfig": "config", "schedulerImage": OURS, **spec}
    return {"metadata": {"name": "cluster", "namespace": NS}, "spec": wanted}


def config_map(text: Any = CONFIGURATION, key: str = "config.yaml", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "config", "namespace": NS, **metadata}, "data": {key: text}}


def test_the_objects_of_our_own_program_pass_all_rules() -> None:
    mine, maps = scheduler(logLevel="Normal", managementState="Managed"), [config_map()]
    assert list(rules.configuration_problems(mine, maps)) == []
    assert list(rules.default_name_problems(mine, maps)) == []
    assert list(rules.token_problems(maps[0])) == []
    assert list(rules.image_problems(mine)) == []
    assert list(rules.field_problems(mine)) == []


def test_an_invalid_configuration_is_reported_with_config_map_line_and_field() -> None:
    (problem,) = rules.configuration_problems(
        scheduler(), [config_map(CONFIGURATION.replace("weight: 3", "weigth: 3"))]
    )
    assert problem.startswith("ConfigMap config, config.yaml:9:")
    assert "profiles[0].plugins.score.enabled[0].weigth" in problem
    assert "weight" in problem.partition("weigth")[2]


def test_a_configuration_is_checked_for_the_image_in_the_resource() -> None:
    older = config_map(CONFIGURATION.replace("config.k8s.io/v1", "config.k8s.io/v1beta3"))
    assert list(rules.configuration_problems(scheduler(), [older])) == []
    image = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"
    assert list(rules.configuration_problems(scheduler(schedulerImage=image), [older]))


def test_a_config_map_without_the_operators_key_is_reported_with_its_keys() -> None:
    (problem,) = rules.configuration_problems(scheduler(), [config_map(key="scheduler.yaml")])
    assert "no key config.yaml" in problem
    assert "scheduler.yaml" in problem


@pytest.mark.parametrize(
    "other",
    [config_map("nonsense", name="another"), config_map("nonsense", namespace="another")],
    ids=["another name", "another namespace"],
)
def test_config_maps_that_no_scheduler_refers_to_are_not_checked(other: dict[str, Any]) -> None:
    assert list(rules.configuration_problems(scheduler(), [other])) == []


def test_values_that_a_preview_does_not_know_are_not_checked() -> None:
    unknown = rules.UNKNOWN
    assert list(rules.configuration_problems(scheduler(schedulerConfig=unknown), [config_map("nonsense")])) == []
    assert list(rules.configuration_problems(scheduler(), [config_map(unknown)])) == []
    assert list(rules.configuration_problems(scheduler(), [config_map("nonsense", name=unknown)])) == []
    assert list(rules.image_problems(scheduler(schedulerImage=unknown), require_digest=True)) == []
    assert list(rules.field_problems(scheduler(schedulerConfig=unknown, resources=unknown))) == []
    assert list(rules.token_problems(config_map(unknown))) == []
    assert list(rules.image_problems({"spec": unknown}))


@pytest.mark.parametrize("line", ["- schedulerName: default-scheduler\n", "- {}\n"], ids=["named so", "by default"])
def test_a_profile_of_the_clusters_own_scheduler_needs_to_be_allowed(line: str) -> None:
    text = CONFIGURATION.partition("- schedulerName")[0] + line
    (problem,) = rules.default_name_problems(scheduler(), [config_map(text)])
    assert "profiles[0].schedulerName" in problem
    assert list(rules.default_name_problems(scheduler(allowDefaultSchedulerName=True), [config_map(text)])) == []


def test_a_profile_whose_name_is_no_subdomain_is_reported() -> None:
    text = CONFIGURATION.partition("- schedulerName")[0] + "- schedulerName: $(touch X)\n"
    (problem,) = rules.configuration_problems(scheduler(), [config_map(text)])
    assert "profiles[0].schedulerName" in problem
    assert "DNS-1123" in problem


@pytest.mark.parametrize("key", ["config.yaml", "scheduler-config.yaml"])
def test_a_literal_token_is_reported_by_its_place_and_never_by_its_value(key: str) -> None:
    (problem,) = rules.token_problems(config_map(WITH_TOKEN, key))
    assert problem.startswith(f"data[{key}].profiles[0].pluginConfig[0].args.metricProvider.token:")
    assert "canary" not in problem


def test_paths_of_token_files_are_no_tokens() -> None:
    text = WITH_TOKEN.replace("token: canary-31415926", "tokenFile: /var/run/secrets/token")
    assert list(rules.token_problems(config_map(text))) == []


def test_other_config_maps_may_hold_anything() -> None:
    assert list(rules.token_problems(config_map("kind: Other\ntoken: abc\n"))) == []
    assert list(rules.token_problems(config_map("not: [yaml"))) == []


@pytest.mark.parametrize(
    ("image", "good", "good_where_digests_are_required"),
    [
        (OURS, True, False),
        (f"registry.example.com:5000/a/b@sha256:{'0' * 64}", True, True),
        (f"registry.example.com/a/b:1@sha256:{'0' * 64}", True, True),
        ("registry.example.com:5000/a/b", False, False),
        ("registry.example.com/a/b:latest", False, False),
        ("", False, False),
        (None, False, False),
    ],
)
def test_an_image_has_a_tag_that_stays_or_a_digest(
    image: str | None, good: bool, good_where_digests_are_required: bool
) -> None:
    mine = scheduler(schedulerImage=image)
    assert (list(rules.image_problems(mine)) == []) is good
    assert (list(rules.image_problems(mine, require_digest=True)) == []) is good_where_digests_are_required


def test_unknown_fields_are_reported_with_the_known_ones() -> None:
    problems = list(rules.field_problems(scheduler(schedulerImages="x", topology={"mod": "HighlyAvailable"})))
    assert [problem.partition(":")[0] for problem in problems] == ["spec.schedulerImages", "spec.topology.mod"]
    assert "schedulerImage" in problems[0]
    assert "mode" in problems[1]


def test_values_that_the_operator_cannot_act_on_are_reported() -> None:
    (problem,) = rules.field_problems(scheduler(managementState="managed"))
    assert problem.startswith("spec.managementState:")


def test_upstreams_own_fields_are_accepted_and_numbers_may_come_as_doubles() -> None:
    topology = {"mode": "HighlyAvailable", "highlyAvailableTopology": {"maxReplicas": 3.0}}
    mine = scheduler(unsupportedConfigOverrides=None, observedConfig={"a": {"b": 1.0}}, topology=topology)
    assert list(rules.field_problems(mine)) == []
