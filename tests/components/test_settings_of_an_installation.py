"""A component takes the settings that a stack file has for its scheduler, and refuses wrong ones in the same words."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pulumi
import pytest
import yaml

import components
from components.drift import FORCED_TYPES
from components.settings import CheckedConfiguration
from scheduler import __version__
from scheduler.config import ConfigurationError
from stacks.checking import check
from tests.components.graph import ROOT, STATUS, Graph, register

IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
OPERATOR_IMAGE = f"localhost/secondary-scheduler/operator:{__version__}"
PROMETHEUS = {"type": "Prometheus", "address": "https://prometheus.monitoring:9090"}
LOAD_AWARE = {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 5, "args": {"targetUtilization": 60}}]}}


def installed(settings: dict[str, Any], *, late_token: str = "", **options: Any) -> Graph:
    """An installation; `late_token` is the metric source's token as a secret Output."""

    def program() -> None:
        if late_token:
            authority = options.pop("authority", None)
            options["metric_access"] = components.MetricAccess(pulumi.Output.secret(late_token), authority)
        args = components.SchedulerInstallationArgs(
            **{"image": IMAGE, "operator_image": OPERATOR_IMAGE, "settings": settings, **options}
        )
        components.SchedulerInstallation("mine", args)

    return register(program, config={}, preview=True, statuses=STATUS)


def configuration_of(graph: Graph) -> str:
    (text,) = [
        each.manifest["data"]["config.yaml"] for each in graph.of("ConfigMap") if "config.yaml" in str(each.inputs)
    ]
    return str(text)


def stack(settings: dict[str, Any], **values: str) -> CheckedConfiguration:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    secrets = {"prometheusToken"} & set(values)
    _, checked, _ = check({"schedulerImage": IMAGE, **texts, **values}, secrets, {}, with_kubeconfig=False)
    return checked


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"schedulerName": "batch"},
        {"schedulerName": "batch", "metricProvider": PROMETHEUS},
        {"plugins": LOAD_AWARE, "metricProvider": PROMETHEUS},
        {
            "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": LOAD_AWARE}],
            "metricProvider": PROMETHEUS,
        },
        {"nodePartition": {"label": "pool=batch", "taint": "pool=batch:NoSchedule"}},
    ],
    ids=["nothing", "a name", "a metric source", "a plugin", "profiles", "a partition"],
)
def test_the_configuration_is_that_of_a_stack_with_these_settings(settings: dict[str, Any]) -> None:
    assert configuration_of(installed(settings)) == stack(settings).content


@pytest.mark.parametrize(
    "settings",
    [
        {"plugins": {"score": {"enabled": [{"name": "TargetPacking"}]}}},
        {
            "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "args": {"targetUtilization": 500}}]}},
            "metricProvider": PROMETHEUS,
        },
        {"plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "args": {"targetUtilisation": 50}}]}}},
        {"plugins": LOAD_AWARE},
        {"metricProvider": {"type": "Prometheus"}},
        {"metricProvider": {"type": "Prometeus", "address": "https://p"}, "schedulerName": "Upper Case"},
        {"profiles": [{"schedulerName": "a"}], "schedulerName": "b"},
        {"extraPlugins": [{"name": "Mine", "points": ["score"]}]},
        {"flavour": "unheard-of"},
        {"sharedNodes": {"recheckAbovePercent": 101}},
        {"metricProvider": {**PROMETHEUS, "credentials": {"allowInsecure": True}}},
    ],
    ids=lambda settings: ",".join(settings),
)
def test_a_mistake_is_refused_with_the_words_of_a_stack_file(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as in_stack:
        stack(settings)
    with pytest.raises(pulumi.RunError) as refusal:
        installed(settings)
    lines = {f"{problem.path}: {problem.message}" for problem in in_stack.value.problems}
    assert len(str(refusal.value).splitlines()) == len(in_stack.value.problems)
    for problem in in_stack.value.problems:
        assert problem.message in str(refusal.value), lines
        assert problem.path in str(refusal.value)
    assert all(line.startswith("mine: settings") for line in str(refusal.value).splitlines())


def test_a_token_goes_to_a_secret_and_is_read_from_it() -> None:
    graph = installed({"metricProvider": PROMETHEUS}, late_token="s3cret-t0ken", authority="PEM")
    (secret,) = graph.of("Secret")
    assert secret.manifest["stringData"] == {"token": "s3cret-t0ken", "ca.crt": "PEM"}
    (profile,) = yaml.safe_load(configuration_of(graph))["profiles"]
    load = next(
        entry["args"]["load"] for entry in profile["pluginConfig"] if entry["name"] == "SecondarySchedulerOptions"
    )
    assert load["tokenFile"].endswith("/token")
    assert load["caFile"].endswith("/ca.crt")
    assert "s3cret-t0ken" not in configuration_of(graph)


@pytest.mark.parametrize(
    ("settings", "options", "path", "message"),
    [
        ({"metricProvider": {**PROMETHEUS, "address": {"fromEnv": "P"}}}, {}, "metricProvider.address", "stack"),
        (
            {"metricProvider": {**PROMETHEUS, "credentials": {"token": {"secretKey": "prometheusToken"}}}},
            {},
            "metricProvider.credentials.token",
            "metric_access",
        ),
        ({}, {"metric_access": components.MetricAccess("token")}, "metricProvider", "metric_access has one"),
        ({"schedulerName": "a"}, {"configuration": "kind: KubeSchedulerConfiguration"}, "mine", "either"),
        ({"configurationFile": "a.yaml"}, {}, "configurationFile", "unknown key"),
        ({"plugin": LOAD_AWARE}, {}, "plugin", 'did you mean "plugins"?'),
    ],
    ids=["environment", "no token", "token for nothing", "both", "file", "unknown"],
)  # fmt: skip
def test_what_only_a_stack_file_or_only_a_program_can_say_is_refused(
    settings: dict[str, Any], options: dict[str, Any], path: str, message: str
) -> None:
    with pytest.raises(pulumi.RunError) as refusal:
        installed(settings, **options)
    (line,) = str(refusal.value).splitlines()
    assert path in line
    assert message in line


def test_settings_are_plain_because_the_configuration_must_be_known_in_a_preview() -> None:
    def program() -> None:
        plugins = {"score": {"enabled": [{"name": pulumi.Output.from_input("late")}]}}
        args = components.SchedulerInstallationArgs(image=IMAGE, settings={"plugins": plugins})
        components.SchedulerInstallation("mine", args)

    with pytest.raises(pulumi.RunError, match=r"mine: settings: plugins.score.enabled\[0\].name: .* is an Output"):
        register(program, config={}, preview=True)


def test_a_go_image_gets_the_token_in_its_configuration_only_where_that_is_said_and_it_is_known() -> None:
    image = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"
    allowed = {**PROMETHEUS, "credentials": {"allowTokenInConfigMap": True}}
    known = components.MetricAccess("t0ken")
    graph = installed({"metricProvider": allowed}, image=image, metric_access=known)
    assert "t0ken" in configuration_of(graph)
    assert graph.of("Secret") == []
    with pytest.raises(pulumi.RunError, match="known before the update"):
        installed({"metricProvider": allowed}, image=image, late_token="t0ken")
    with pytest.raises(pulumi.RunError, match=r"choose one of two: metricProvider\.loadWatcher.*allowTokenInConfigMap"):
        installed({"metricProvider": PROMETHEUS}, image=image, metric_access=known)


def test_the_settings_are_read_without_pulumi() -> None:
    script = "import sys; sys.modules['pulumi'] = None; import components.settings, stacks.checking"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_component_forces_the_conflicts_of_what_nobody_tunes_and_of_nothing_else() -> None:
    graph = installed({})
    forced = {each.type for each in graph.objects if "pulumi.com/patchForce" in str(each.manifest["metadata"])}
    assert forced == {each.type for each in graph.objects} & FORCED_TYPES
    assert "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole" in forced
