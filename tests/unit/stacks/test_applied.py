"""How a stack changes its previously applied configuration, read from the stack's own state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.config import Configuration, custom_flavour, flavour_named, load_configuration
from scheduler.config.flavours import ExtraPlugin
from stacks.applied import applied, changes

HEAD = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: mine\n"
)
OURS = "localhost/secondary-scheduler/kube-scheduler:0.1.0"


def plugins(*names: str) -> str:
    enabled = "".join(f"      - name: {name}\n        weight: 2\n" for name in names)
    return f"{HEAD}  plugins:\n    score:\n      enabled:\n{enabled}" if names else HEAD


def state(text: str, image: str = OURS) -> dict[str, Any]:
    return {
        "urn:1": {"type": "pulumi:pulumi:Stack", "outputs": {}},
        "urn:2": {"type": "kubernetes:core/v1:ConfigMap", "outputs": {"data": {"other": "x"}}},
        "urn:3": {"type": "kubernetes:core/v1:ConfigMap", "outputs": {"data": {"config.yaml": text}}},
        "urn:4": {
            "type": "kubernetes:operator.openshift.io/v1:SecondaryScheduler",
            "outputs": {"spec": {"schedulerImage": image}},
        },
    }


def load(text: str, **options: Any) -> Configuration:
    return load_configuration(text, source="new", **options)


def reported(state: Mapping[str, Any], new: Configuration) -> list[str]:
    return changes(applied(state, new), new)


def test_only_a_change_is_reported() -> None:
    new = load(plugins("ImageLocality"))
    assert reported(state(plugins()), new) == ["profile mine: ImageLocality weight 1 -> 2"]
    assert reported(state(plugins("ImageLocality")), new) == []
    assert reported(state("# a comment\n" + plugins("ImageLocality")), new) == []


@pytest.mark.parametrize("used", ["a", "b"])
def test_after_an_update_that_failed_the_configuration_that_is_in_use_counts(used: str) -> None:
    maps = {
        f"urn:map-{name}": {
            "type": "kubernetes:core/v1:ConfigMap",
            "outputs": {"metadata": {"name": name}, "data": {"config.yaml": text}},
        }
        for name, text in (("a", plugins()), ("b", plugins("ImageLocality")))
    }
    resource = {
        "type": "kubernetes:operator.openshift.io/v1:SecondaryScheduler",
        "outputs": {"spec": {"schedulerImage": OURS, "schedulerConfig": used}},
    }
    volumes = [{"name": "tmp"}, {"name": "etckubernetes", "configMap": {"name": used}}]
    deployment = {
        "type": "kubernetes:apps/v1:Deployment",
        "outputs": {"spec": {"template": {"spec": {"containers": [{"image": OURS}], "volumes": volumes}}}},
    }
    for owner in (resource, deployment):
        new = load(plugins("ImageLocality"))
        lines = reported({**maps, "urn:owner": owner}, new)
        assert lines == ([] if used == "b" else ["profile mine: ImageLocality weight 1 -> 2"])


@pytest.mark.parametrize(
    "nothing", [{}, {"urn": {"type": "kubernetes:core/v1:ConfigMap", "outputs": {}}}, {"urn": None}]
)
def test_a_stack_that_applied_nothing_yet_has_no_changes(nothing: dict[str, Any]) -> None:
    assert reported(nothing, load(HEAD)) == []


def test_a_configuration_of_another_image_can_be_compared() -> None:
    release = flavour_named("scheduler-plugins@0.28")
    old = plugins("QOSSort").replace("score", "queueSort").replace("        weight: 2\n", "")
    old += "      disabled: [{name: PrioritySort}]\n"
    old = old.replace("/v1\n", "/v1beta3\n")
    lines = reported(state(old, "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.28.9"), load(HEAD))
    assert release.reads("v1beta3")
    assert "profile mine: QOSSort removed, it ran at queueSort" in lines
    assert "profile mine: PrioritySort added at queueSort" in lines


def test_plugins_that_only_the_image_has_are_compared_with_their_args() -> None:
    flavour = custom_flavour([ExtraPlugin("Mine", frozenset())])
    old = f"{HEAD}  pluginConfig:\n  - name: Mine\n    args: {{reserve: 1}}\n"
    new = load(old.replace("mine", "other"), flavour=flavour)
    assert "profile mine: removed; nothing schedules pods that name it" in reported(state(old, "my/own:1"), new)


@pytest.mark.parametrize("text", ["kind: KubeSchedulerConfiguration\n", "kind: KubeSchedulerConfiguration: x: y"])
def test_an_unreadable_configuration_is_reported(text: str) -> None:
    assert reported(state(text), load(HEAD)) == ["the previously applied configuration cannot be read"]
