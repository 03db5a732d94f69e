"""Images and names that other resources' outputs are, such as that of a build."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest

import components
from tests.components.graph import STATUS, Graph, register

IMAGE = "registry.example.com/mine/scheduler:1"
OPERATOR_IMAGE = "registry.example.com/mine/operator:1"
OTHER = "registry.example.com/other"
NAMES = ("image", "name", "namespace", "account", "package", "channel", "source", "prefix", "role", "secret", "key")
DECIDING = {
    "MetricAccess.existing_secret": "what the operator may read",
    "SchedulerInstallationArgs.resource_name": "what the operator serves",
    "SchedulerConfigurationArgs.image": "the flavour that the content is checked for",
    "SchedulerConfigurationArgs.base_name": "a length that upstream's operator limits",
}
"""Names that must be known before the update, and what they decide."""


def images_and_names() -> Iterator[tuple[str, str]]:
    """Every image and every name that a component takes, with its annotation."""
    for exported in components.__all__:
        described = getattr(components, exported)
        takes = exported.endswith("Args") or exported in ("MetricAccess", "OlmSource", "SecretKeyReference")
        if not takes or not dataclasses.is_dataclass(described):
            continue
        for field in dataclasses.fields(described):
            if field.name.rpartition("_")[2] in NAMES:
                yield f"{exported}.{field.name}", str(field.type)


def test_every_image_and_every_name_may_be_an_output_unless_it_decides_what_there_is() -> None:
    types = dict(images_and_names())
    plain = {name for name, annotation in types.items() if re.match(r"str\b", annotation)}
    assert plain == DECIDING.keys()
    assert sum(annotation.startswith("pulumi.Input[str]") for annotation in types.values()) > 40


def installed(mode: Any, late: Any, **args: Any) -> Graph:
    """An installation with images and a namespace that `late` makes of texts."""

    def program() -> None:
        described = components.SchedulerInstallationArgs(
            image=late(IMAGE),
            operator_image=late(OPERATOR_IMAGE),
            namespace=late("team-a"),
            allowed_images=[late(OTHER)],
            mode=mode,
            **args,
        )
        components.SchedulerInstallation("mine", described)

    return register(program, config={}, statuses=STATUS)


def by_urn(graph: Graph) -> dict[str, Any]:
    return {each.urn: each.inputs for each in graph.resources}


@pytest.mark.parametrize("upstream", [False, True], ids=["ours", "upstream's operator"])
@pytest.mark.parametrize("mode", ["manifests", "direct", "none"])
def test_images_and_a_namespace_that_are_outputs_give_the_same_objects(mode: str, upstream: bool) -> None:
    # conftest makes an error of every Output that is formatted as text.
    args: dict[str, Any] = {"flavour": "ours", "upstream_operator": upstream and mode != "direct"}
    access = components.MetricAccess(cluster_role="cluster-monitoring-view", audience="prometheus")
    late, known = (
        installed(mode, each, metric_access=access, **args) for each in (pulumi.Output.from_input, lambda text: text)
    )
    assert by_urn(late) == by_urn(known)
    assert IMAGE in str([each.manifest for each in late.objects])


def test_settings_may_hold_the_flavour_of_an_image_that_is_an_output() -> None:
    graph = installed("manifests", pulumi.Output.from_input, settings={"flavour": "ours"})
    assert graph.only("SecondaryScheduler").manifest["spec"]["schedulerImage"] == IMAGE


def test_an_image_that_is_an_output_needs_a_flavour() -> None:
    with pytest.raises(pulumi.RunError, match=r"^mine: image: .* flavour must say what it is"):
        installed("manifests", pulumi.Output.from_input)
