"""The component as a package: what Pulumi's analyzer makes of it, and what it makes of a program's inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest
from pulumi.provider.experimental.analyzer import Analyzer
from pulumi.provider.experimental.schema import generate_schema

import components
from components import packaged, scheduler_names
from scheduler import __version__
from tests.components.graph import ROOT, STATUS, Graph, register

IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
OPERATOR_IMAGE = f"localhost/secondary-scheduler/operator:{__version__}"
TOKEN = f"{packaged.NAME}:index:SchedulerInstallation"
SCHEMA: dict[str, Any] = json.loads((ROOT / "components/package/schema.json").read_text(encoding="utf-8"))


def analysed() -> dict[str, Any]:
    analysis = Analyzer(packaged.NAME).analyze([packaged.SchedulerInstallation])
    parts = (analysis["component_definitions"], analysis["type_definitions"], analysis["dependencies"])
    return dict(generate_schema(packaged.NAME, "", None, *parts).to_json())


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every property with its owner, its name and what its SDKs see of it."""
    component = schema["resources"][TOKEN]
    sections = {"inputs": component["inputProperties"], "outputs": component["properties"]}
    sections |= {name: described["properties"] for name, described in schema["types"].items()}
    for owner, described in sections.items():
        yield from ((owner, name, value) for name, value in described.items())


def test_the_schema_is_the_one_that_is_checked_in() -> None:
    def shape(schema: dict[str, Any]) -> dict[tuple[str, str], Any]:
        seen = ("type", "$ref", "plain", "description")
        return {(owner, name): {key: value.get(key) for key in seen} for owner, name, value in properties(schema)}

    assert shape(analysed()) == shape(SCHEMA), "PULUMI: pulumi package get-schema ./components/package"
    assert analysed()["resources"][TOKEN]["requiredInputs"] == SCHEMA["resources"][TOKEN]["requiredInputs"] == ["image"]


def test_every_property_is_described_and_no_type_is_empty() -> None:
    assert [name for _, name, value in properties(SCHEMA) if not value.get("description")] == []
    assert [name for name, described in SCHEMA["types"].items() if not described["properties"]] == []


def test_only_what_need_not_be_known_in_a_preview_may_be_an_output() -> None:
    assert {name for owner, name, value in properties(SCHEMA) if owner == "inputs" and not value.get("plain")} == {
        "image",
        "operatorImage",
        "namespace",
        "token",
        "certificateAuthority",
    }


def packaged_installation(**args: Any) -> Graph:
    """The component as it is constructed for a program in another language."""

    def program() -> None:
        inputs: Any = {"image": IMAGE, "operator_image": OPERATOR_IMAGE, **args}
        packaged.SchedulerInstallation("mine", inputs)

    return register(program, config={}, preview=True, statuses=STATUS)


def test_numbers_arrive_as_floats_and_leave_as_whole_numbers() -> None:
    plugins = {
        "score": {"enabled": [{"name": "TargetLoadPacking", "weight": 7.0, "args": {"targetUtilization": 55.0}}]}
    }
    settings = {"plugins": plugins, "metricProvider": {"type": "KubernetesMetricsServer"}}
    graph = packaged_installation(settings=settings, replicas=2.0, egress_ports=[8443.0])
    spec = graph.only("SecondaryScheduler").manifest["spec"]
    assert spec["topology"]["highlyAvailableTopology"] == {"maxReplicas": 2}
    assert spec["egressPorts"] == [8443]
    (text,) = [each.manifest["data"]["config.yaml"] for each in graph.of("ConfigMap") if "config.yaml" in str(each)]
    assert "weight: 7\n" in text
    assert "targetUtilization: 55\n" in text


def test_it_registers_what_the_component_of_a_python_program_does_so_that_a_program_may_move_to_it() -> None:
    def program() -> None:
        args = components.SchedulerInstallationArgs(image=IMAGE, operator_image=OPERATOR_IMAGE)
        components.SchedulerInstallation("mine", args)

    in_program = register(program, config={}, preview=True, statuses=STATUS)
    in_package = packaged_installation()
    registered = [{each.urn: each.inputs for each in graph.resources} for graph in (in_package, in_program)]
    assert registered[0] == registered[1]
    assert TOKEN in {each.type for each in in_package.resources}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"settings": {"plugins": {"score": {"enabled": [{"name": "Nope"}]}}}}, r"mine: settings: plugins.*Nope"),
        ({"mode": "olm"}, r"mine: mode: .*manifests, direct, none"),
        (
            {"settings": {"metricProvider": {"type": "Prometheus"}}},
            r"mine: settings: .*must hold address",
        ),
        (
            {"replicas": 0, "log_level": "Loud"},
            r"mine: replicas: .*\nmine: logLevel: |mine: logLevel: .*\nmine: replicas: ",
        ),
        ({"scrape_namespaces": ["a b"]}, r"mine: scrapeNamespaces\[0\]: is not the name of a namespace"),
        (
            {"scrape_namespaces": ["a"], "upstream_operator": True},
            r"mine: scrapeNamespaces: needs this project's operator",
        ),
        ({"scrape_namespaces": ["a"], "objects": {"network_policy": False}}, r"mine: scrapeNamespaces: has no effect"),
    ],
)
def test_a_mistake_fails_the_preview_and_is_named(args: dict[str, Any], message: str) -> None:
    with pytest.raises(pulumi.RunError, match=message):
        packaged_installation(**args)


@pytest.fixture
def _served_to_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's process has no root: the program with the stack is another one."""
    monkeypatch.setattr(scheduler_names, "get_root_resource", lambda: None)
    monkeypatch.setattr(scheduler_names, "_packaged_claims", {})


def two_installations(names: Mapping[str, str]) -> Graph:
    """Two installations of a program in another language: schedulerName and the name of the cluster's provider.

    The engine names the provider in each request; the package makes an object of each."""

    def program() -> None:
        for number, (name, provider) in enumerate(names.items()):
            inputs: Any = {"image": IMAGE, "operator_image": OPERATOR_IMAGE, "namespace": f"team-{number}"}
            inputs["settings"] = {"schedulerName": "batch"}
            opts = pulumi.ResourceOptions(providers=[k8s.Provider(provider)]) if provider else None
            packaged.SchedulerInstallation(name, inputs, opts)

    return register(program, config={}, preview=True, statuses=STATUS)


@pytest.mark.usefixtures("_served_to_another_process")
@pytest.mark.parametrize("provider", ["", "east"])
def test_a_scheduler_name_of_two_packaged_installations_on_one_cluster_is_refused(provider: str) -> None:
    with pytest.raises(pulumi.RunError, match=r"b: schedulerName batch is that of a on the same cluster"):
        two_installations({"a": provider, "b": provider})


@pytest.mark.usefixtures("_served_to_another_process")
def test_packaged_installations_on_two_clusters_may_share_a_scheduler_name() -> None:
    # As the preview and the update of one process: neither keeps a name from the other.
    for _ in range(2):
        assert len(two_installations({"a": "east", "b": "west"}).of("SecondaryScheduler")) == 2


def test_optional_objects_can_be_left_out() -> None:
    graph = packaged_installation(objects={"priority_class": False, "network_policy": None})
    assert graph.of("PriorityClass") == []
    assert graph.of("NetworkPolicy")
