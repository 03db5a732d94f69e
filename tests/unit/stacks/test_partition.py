"""Nodes for this scheduler alone: what the settings become, and which of them contradict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.settings import NodePartitionSettings
from scheduler.config import ConfigurationError
from stacks.checking import check

GOOD = {
    "cluster": {"clusterIdentifier": "test"},
    "schedulerImage": "localhost/secondary-scheduler/kube-scheduler:0.1.0",
    "operatorImage": "localhost/secondary-scheduler/operator:0.1.0",
}
PARTITION = {"label": "example.com/scheduler=secondary", "taint": "example.com/scheduler=secondary:NoSchedule"}
GO_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"


def _terms() -> dict[str, Any]:
    expression = {"key": "example.com/scheduler", "operator": "In", "values": ["secondary"]}
    terms = [{"matchExpressions": [expression]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


class Stack:
    def __init__(self, directory: Path, kubeconfig: Path) -> None:
        self.directory, self.environment = directory, {"KUBECONFIG": str(kubeconfig)}

    def args(self, plugin: str, **settings: Any) -> list[Any]:
        """What each profile gives a plugin."""
        values = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in (GOOD | settings).items()
        }
        _, profile, _ = check(values, set(), self.environment, self.directory)
        profiles = yaml.safe_load(profile.content)["profiles"]
        return [
            next((entry["args"] for entry in each.get("pluginConfig", ()) if entry["name"] == plugin), None)
            for each in profiles
        ]

    def refused(self, **settings: Any) -> list[tuple[str, str]]:
        with pytest.raises(ConfigurationError) as refused:
            self.args("", **settings)
        return [(problem.path, problem.message) for problem in refused.value.problems]


@pytest.fixture
def stack(tmp_path: Path, kubeconfig: Path) -> Stack:
    return Stack(tmp_path, kubeconfig)


@pytest.mark.parametrize("image", [GOOD["schedulerImage"], GO_IMAGE])
def test_every_profile_keeps_its_pods_on_the_nodes(stack: Stack, image: str) -> None:
    names = [{"schedulerName": "a"}, {"schedulerName": "b"}]
    args = stack.args("NodeAffinity", profiles=names, nodePartition=PARTITION, schedulerImage=image)
    assert args == [{"addedAffinity": _terms()}] * 2


def test_without_the_setting_nothing_is_added(stack: Stack) -> None:
    assert stack.args("NodeAffinity") == [None]
    assert stack.args("SecondarySchedulerOptions") == [None]


def test_a_profile_that_names_the_plugin_itself_gets_it_too(stack: Stack) -> None:
    plugins = {"score": {"enabled": [{"name": "NodeAffinity", "weight": 9}], "disabled": ["NodeAffinity"]}}
    assert stack.args("NodeAffinity", plugins=plugins, nodePartition=PARTITION) == [{"addedAffinity": _terms()}]


def test_an_added_affinity_of_the_profile_conflicts(stack: Stack) -> None:
    chosen = {"name": "NodeAffinity", "weight": 2, "args": {"addedAffinity": _terms()}}
    plugins = {"score": {"enabled": [chosen], "disabled": ["NodeAffinity"]}}
    ((path, message),) = stack.refused(plugins=plugins, nodePartition=PARTITION)
    assert path == "plugins.score.enabled[0].args.addedAffinity"
    assert message == "conflicts with nodePartition, which sets it; remove one of the two"


@pytest.mark.parametrize("point", ["filter", "multiPoint"])
def test_a_profile_that_disables_the_plugin_is_refused(stack: Stack, point: str) -> None:
    refused = stack.refused(plugins={point: {"disabled": ["NodeAffinity"]}}, nodePartition=PARTITION)
    assert refused[0][0] == "nodePartition"
    assert "has NodeAffinity disabled" in refused[0][1]


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"label": "scheduler"}, "nodePartition.label", "write KEY=VALUE"),
        ({"label": "a/b/c=d"}, "nodePartition.label", "write KEY=VALUE"),
        ({"label": "key=no spaces"}, "nodePartition.label", "write KEY=VALUE"),
        ({"taint": "example.com/scheduler=secondary"}, "nodePartition.taint", "NoSchedule or :NoExecute"),
        ({"taint": "a=b:PreferNoSchedule"}, "nodePartition.taint", "NoSchedule or :NoExecute"),
        ({"taint": "a:NoSchedule"}, "nodePartition.taint", "write KEY=VALUE:NoSchedule"),
        ({"nodes": ["a"]}, "nodePartition.nodes", "unknown key"),
    ],
)
def test_a_partition_that_keeps_nobody_apart_is_refused(
    stack: Stack, changes: dict[str, Any], path: str, words: str
) -> None:
    ((refused_path, message),) = stack.refused(nodePartition=PARTITION | changes)
    assert refused_path == path
    assert words in message


def test_beside_a_file_both_belong_in_the_file(stack: Stack) -> None:
    (stack.directory / "file.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: a}]\n"
    )
    of_file = {"sharedNodes": {"recheckAbovePercent": 80}, "explainAnnotation": True}
    refused = stack.refused(configurationFile="file.yaml", nodePartition=PARTITION, **of_file)
    assert [path for path, _ in refused] == ["nodePartition", "sharedNodes", "explainAnnotation"]
    assert "set addedAffinity in the args of NodeAffinity there" in refused[0][1]


def test_shared_nodes_reach_the_options_of_our_image_only(stack: Stack) -> None:
    shared = {"recheckAbovePercent": 80}
    assert stack.args("SecondarySchedulerOptions", sharedNodes=shared) == [{"recheckNodesAbovePercent": 80}]
    ((path, message),) = stack.refused(sharedNodes=shared, schedulerImage=GO_IMAGE)
    assert path == "sharedNodes.recheckAbovePercent"
    assert "cannot do this" in message


def test_the_annotation_reaches_the_options_of_our_image_only(stack: Stack) -> None:
    assert stack.args("SecondarySchedulerOptions", explainAnnotation=True) == [{"explainAnnotation": True}]
    assert stack.args("SecondarySchedulerOptions", explainAnnotation=False) == [None]
    ((path, message),) = stack.refused(explainAnnotation=True, schedulerImage=GO_IMAGE)
    assert path == "explainAnnotation"
    assert "cannot do this" in message


def test_every_one_of_several_profiles_annotates(stack: Stack) -> None:
    profiles = [{"schedulerName": "online"}, {"schedulerName": "batch"}]
    annotating = {"explainAnnotation": True}
    assert stack.args("SecondarySchedulerOptions", profiles=profiles, **annotating) == [annotating, annotating]


def test_the_output_says_what_to_do_to_nodes_and_pods() -> None:
    assert NodePartitionSettings.model_validate(PARTITION).instructions() == {
        "nodes": [
            "kubectl label node NODE example.com/scheduler=secondary",
            "kubectl taint node NODE example.com/scheduler=secondary:NoSchedule",
        ],
        "pods": {
            "tolerations": [
                {"key": "example.com/scheduler", "operator": "Equal", "value": "secondary", "effect": "NoSchedule"}
            ],
            "nodeSelector": {"example.com/scheduler": "secondary"},
        },
    }
