"""A shadow profile as a setting: the second profile that it becomes, what the stack says of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.settings import CheckedConfiguration
from scheduler.config import ConfigurationError
from stacks.checking import check

GOOD = {
    "cluster": {"clusterIdentifier": "test"},
    "schedulerImage": "localhost/secondary-scheduler/kube-scheduler:0.1.0",
    "operatorImage": "localhost/secondary-scheduler/operator:0.1.0",
}
GO_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"
SOURCE = {"type": "Prometheus", "address": "https://prometheus.example.com"}
OTHER_SOURCE = {"type": "Prometheus", "address": "https://other.example.com"}
UNCHANGED = {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 1}]}}
TOKEN = {"credentials": {"token": {"secretKey": "prometheusToken"}}}


class Stack:
    def __init__(self, directory: Path, kubeconfig: Path) -> None:
        self.directory, self.environment = directory, {"KUBECONFIG": str(kubeconfig)}

    def profile(self, **settings: Any) -> CheckedConfiguration:
        values = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in (GOOD | settings).items()
        }
        _, profile, _ = check(values, {"prometheusToken"}, self.environment, self.directory)
        return profile

    def generated(self, **settings: Any) -> list[dict[str, Any]]:
        """The profiles of the configuration."""
        profiles: list[dict[str, Any]] = yaml.safe_load(self.profile(**settings).content)["profiles"]
        return profiles

    def refused(self, **settings: Any) -> list[tuple[str, str]]:
        with pytest.raises(ConfigurationError) as refused:
            self.profile(**settings)
        return [(problem.path, problem.message) for problem in refused.value.problems]


@pytest.fixture
def stack(tmp_path: Path, kubeconfig: Path) -> Stack:
    return Stack(tmp_path, kubeconfig)


def _args(profile: dict[str, Any], name: str) -> dict[str, Any]:
    args: dict[str, Any] = next((each["args"] for each in profile.get("pluginConfig", ()) if each["name"] == name), {})
    return args


def test_a_source_of_its_own_tries_placing_by_load_beside_a_profile_that_does_not(stack: Stack) -> None:
    live, shadow = stack.generated(shadow={"metricProvider": SOURCE})
    assert live["schedulerName"] == "secondary-scheduler"
    assert "plugins" not in live
    assert _args(live, "SecondarySchedulerOptions") == {"shadow": {"profile": "secondary-scheduler-shadow"}}
    assert shadow["schedulerName"] == "secondary-scheduler-shadow"
    assert [plugin["name"] for plugin in shadow["plugins"]["score"]["enabled"]] == ["TargetLoadPacking"]
    assert _args(shadow, "TargetLoadPacking")["metricProvider"]["address"] == SOURCE["address"]
    assert "shadow" not in _args(shadow, "SecondarySchedulerOptions")


def test_the_profiles_own_source_and_credentials_serve_the_shadow_too(stack: Stack) -> None:
    arguments = [{"name": "TargetLoadPacking", "weight": 10, "args": {"targetUtilization": 70}}]
    live, shadow = stack.generated(
        metricProvider=SOURCE | TOKEN,
        prometheusToken="t" * 20,
        shadow={"plugins": {"score": {"enabled": arguments}}, "sampleRatio": 0.25},
    )
    assert _args(live, "SecondarySchedulerOptions")["shadow"] == {
        "profile": "secondary-scheduler-shadow",
        "sampleRatio": 0.25,
    }
    assert _args(shadow, "TargetLoadPacking")["targetUtilization"] == 70
    loads = [_args(each, "SecondarySchedulerOptions")["load"] for each in (live, shadow)]
    assert loads[0] == loads[1]
    assert "tokenFile" in loads[0]


def test_a_profile_by_requests_tries_the_stacks_source_once_it_names_a_plugin_of_its_own(stack: Stack) -> None:
    live, shadow = stack.generated(metricProvider=SOURCE, plugins=UNCHANGED, shadow={"sampleRatio": 0.5})
    assert live["plugins"] == {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 1}]}}
    assert shadow["plugins"]["score"]["enabled"][0]["name"] == "TargetLoadPacking"


def test_a_token_does_not_go_to_the_shadows_own_source(stack: Stack) -> None:
    profiles = stack.generated(
        metricProvider=SOURCE | TOKEN,
        prometheusToken="t" * 20,
        shadow={"metricProvider": OTHER_SOURCE},
    )
    loads = [_args(each, "SecondarySchedulerOptions").get("load", {}) for each in profiles]
    assert ["tokenFile" in load for load in loads] == [True, False]


def test_each_of_several_profiles_has_its_own(stack: Stack) -> None:
    entries = [
        {"schedulerName": "online", "shadow": {"plugins": UNCHANGED | {"filter": {"disabled": ["NodePorts"]}}}},
        {"schedulerName": "batch"},
    ]
    names = [each["schedulerName"] for each in stack.generated(profiles=entries)]
    assert names == ["online", "online-shadow", "batch"]


def test_what_is_decided_by_nobody_is_not_among_the_names_that_pods_use(stack: Stack) -> None:
    profile = stack.profile(shadow={"metricProvider": SOURCE})
    assert profile.configuration.scheduler_names == ("secondary-scheduler",)
    # It would be said of a file, where it may be a mistake.
    assert [warning for warning in profile.warnings if "never bound" in warning.message] == []


def test_the_output_says_what_is_tried(stack: Stack) -> None:
    profile = stack.profile(shadow={"metricProvider": SOURCE})
    summary = profile.outputs["profile"]
    assert summary["schedulerName"] == "secondary-scheduler"
    assert summary["shadow"]["schedulerName"] == "secondary-scheduler-shadow"
    assert summary["shadow"]["scorePlugins"]["TargetLoadPacking"] == 10
    assert "shadow" not in stack.profile().outputs["profile"]


@pytest.mark.parametrize(
    ("settings", "path", "words"),
    [
        ({"shadow": {"sampleRatio": 0.5}}, "shadow", "decides as the profile itself does"),
        ({"shadow": {"plugins": UNCHANGED, "sampleRatio": 0}}, "shadow.sampleRatio", "must be above 0"),
        ({"shadow": {"plugins": UNCHANGED, "sampleRatio": 1.5}}, "shadow.sampleRatio", "must be at most 1"),
        ({"shadow": {"plugins": UNCHANGED, "profile": "x"}}, "shadow.profile", "unknown key"),
        ({"shadow": {"plugins": UNCHANGED, "shadow": {}}}, "shadow.shadow", "unknown key"),
        (
            {"shadow": {"plugins": {"score": {"enabled": [{"name": "TargetLoadPackin"}]}}}},
            "shadow.plugins.score.enabled[0].name",
            "does not exist",
        ),
        (
            {"shadow": {"plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}}},
            "metricProvider",
            "TargetLoadPacking scores by load",
        ),
        (
            {"shadow": {"metricProvider": SOURCE | TOKEN}, "prometheusToken": "t" * 20},
            "shadow.metricProvider.credentials",
            "may only be set in the stack's metricProvider",
        ),
        ({"shadow": {"plugins": UNCHANGED}, "profiles": [{"schedulerName": "a"}]}, "shadow", "belongs in an entry"),
        ({"shadow": {"plugins": UNCHANGED}, "schedulerImage": GO_IMAGE}, "shadow", "cannot do this"),
        (
            {
                "profiles": [
                    {"schedulerName": "a", "shadow": {"plugins": UNCHANGED}},
                    {"schedulerName": "a-shadow"},
                ]
            },
            "profiles[1].schedulerName",
            "a-shadow",
        ),
    ],
)
def test_a_shadow_that_cannot_be_is_refused_at_its_key(
    stack: Stack, settings: dict[str, Any], path: str, words: str
) -> None:
    refused = stack.refused(**settings)
    assert path in [place for place, _ in refused]
    assert words in " ".join(message for _, message in refused)


def test_beside_a_file_it_belongs_in_the_file(stack: Stack) -> None:
    (stack.directory / "file.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: a}]\n"
    )
    ((path, message),) = stack.refused(configurationFile="file.yaml", shadow={"plugins": UNCHANGED})
    assert path == "shadow"
    assert "set a second profile, and shadow in the args of SecondarySchedulerOptions there" in message
