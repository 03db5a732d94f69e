"""The profile's settings in the graph: profiles in one ConfigMap, rights of a custom image's plugins."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.config import load_configuration
from tests.components.conftest import CANARY_TOKEN
from tests.components.graph import Graph, clear_values, is_secret, run_program, stack_values

GO = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"
CUSTOM = "registry.example.com/my/scheduler:1"
RULE = {"apiGroups": ["gpu.example.com"], "resources": ["gpus"], "verbs": ["get", "list", "watch"]}
RUNS = {"name": "GpuAware", "points": ["score"], "rbac": [RULE]}
RESTS = {"name": "Unused", "points": ["score"], "rbac": [RULE]}
ROLE = "secondary-scheduler:plugin:gpuaware"


def run(**changes: Any) -> Graph:
    values = stack_values("local")
    for key in ("metricProvider", "plugins"):
        values[key] = "{}"
    values |= {key: value if isinstance(value, str) else json.dumps(value) for key, value in changes.items()}
    return run_program(values, preview=True)


def test_several_profiles_give_one_config_map_and_one_output_each(local_environment: None) -> None:
    graph = run(profiles=[{"schedulerName": "online"}, {"schedulerName": "batch"}])
    data = [config_map.manifest["data"] for config_map in graph.of("ConfigMap")]
    (text,) = [content["config.yaml"] for content in data if "config.yaml" in content]
    assert load_configuration(text, source="f").scheduler_names == ("online", "batch")
    profiles = graph.outputs["profiles"]
    assert [profile["schedulerName"] for profile in profiles] == ["online", "batch"]
    assert "profile" not in graph.outputs


def test_nodes_of_its_own_are_in_the_config_map_and_their_instructions_are_an_output(local_environment: None) -> None:
    partition = {"label": "example.com/scheduler=own", "taint": "example.com/scheduler=own:NoSchedule"}
    graph = run(nodePartition=partition)
    data = [config_map.manifest["data"] for config_map in graph.of("ConfigMap")]
    (text,) = [content["config.yaml"] for content in data if "config.yaml" in content]
    assert "addedAffinity" in text
    assert graph.outputs["nodePartition"]["nodes"] == [
        "kubectl label node NODE example.com/scheduler=own",
        "kubectl taint node NODE example.com/scheduler=own:NoSchedule",
    ]
    assert "nodePartition" not in run().outputs


@pytest.mark.parametrize("mode", ["manifests", "direct", "none"])
def test_a_plugin_of_a_custom_image_gets_the_rights_it_declares_if_it_runs(local_environment: None, mode: str) -> None:
    plugins = {"score": {"enabled": [{"name": "GpuAware", "weight": 3}]}}
    graph = run(installMode=mode, schedulerImage=CUSTOM, extraPlugins=[RUNS, RESTS], plugins=plugins)
    roles = {role.object_name: role.manifest["rules"] for role in graph.of("ClusterRole")}
    assert roles[ROLE] == [RULE]
    assert not any("unused" in name for name in roles)
    bound = {binding.manifest["roleRef"]["name"] for binding in graph.of("ClusterRoleBinding")}
    assert ROLE in bound


def test_a_token_in_the_config_map_is_encrypted_in_the_state_and_permitted_in_the_resource(
    local_environment: None,
) -> None:
    source = json.loads(stack_values("local")["metricProvider"])
    del source["credentials"]["caFile"]
    source["credentials"]["allowTokenInConfigMap"] = True
    graph = run(schedulerImage=GO, operatorImage="example.com/operator:1", metricProvider=source)
    assert not graph.of("Secret")
    (text,) = [each.inputs["data"]["config.yaml"] for each in graph.of("ConfigMap") if "configuration" in each.name]
    assert is_secret(text)
    assert CANARY_TOKEN in text["value"]
    for resource in graph.resources:
        assert CANARY_TOKEN not in json.dumps(list(clear_values(resource.inputs)))
    assert CANARY_TOKEN not in json.dumps(graph.outputs)
    assert graph.only("SecondaryScheduler").manifest["spec"]["allowTokenInConfigMap"] is True
    assert "allowTokenInConfigMap" not in run().only("SecondaryScheduler").manifest["spec"]


def test_the_resource_describes_flavour_and_plugins_of_a_custom_image(local_environment: None) -> None:
    plugins = {"score": {"enabled": [{"name": "GpuAware", "weight": 3}]}}
    graph = run(schedulerImage=CUSTOM, flavour="custom", extraPlugins=[RUNS], plugins=plugins)
    (resource,) = graph.of("SecondaryScheduler")
    assert resource.manifest["spec"]["flavour"] == "custom"
    assert resource.manifest["spec"]["extraPlugins"] == [{"name": "GpuAware", "points": ["score"]}]
    (plain,) = run().of("SecondaryScheduler")
    assert not {"flavour", "extraPlugins"} & plain.manifest["spec"].keys()


def test_without_an_operator_a_mirrored_image_starts_with_the_command_of_its_flavour(local_environment: None) -> None:
    graph = run(installMode="direct", schedulerImage=CUSTOM, flavour="scheduler-plugins@0.29.7")
    (deployment,) = (
        candidate for candidate in graph.of("Deployment") if candidate.object_name == "secondary-scheduler"
    )
    (container,) = deployment.manifest["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["/kube-scheduler"]
    bound = {binding.manifest["roleRef"]["name"] for binding in graph.of("ClusterRoleBinding")}
    assert "system:kube-scheduler" in bound
