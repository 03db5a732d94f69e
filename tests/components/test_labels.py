"""The common labels: on every object of whatever shape, never on what is no object."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest

from components.labels import common_labels, common_labels_transform

OURS = {
    "app.kubernetes.io/part-of": "secondary-scheduler",
    "app.kubernetes.io/managed-by": "pulumi",
    "app.kubernetes.io/instance": "prod",
}
SECRET = "kubernetes:core/v1:Secret"


def transformed(type_: str, props: dict[str, Any], *, custom: bool = True) -> Any:
    """What the engine's transform makes of properties; None if it leaves them alone."""
    args = pulumi.ResourceTransformArgs(custom, type_, "name", props, pulumi.ResourceOptions())
    result = common_labels_transform("prod")(args)
    return None if result is None else result.props


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": "a"}, {"name": "a", "labels": OURS}),
        ({"labels": {"own": "1"}}, {"labels": {**OURS, "own": "1"}}),
        ({"labels": {"app.kubernetes.io/instance": "own"}}, {"labels": {**OURS, "app.kubernetes.io/instance": "own"}}),
        (None, {"labels": OURS}),
    ],
    ids=["no labels", "other labels", "own value", "no metadata"],
)
def test_labels_are_added_and_own_ones_win(metadata: Any, expected: Any) -> None:
    assert transformed(SECRET, {"metadata": metadata, "type": "Opaque"}) == {"metadata": expected, "type": "Opaque"}


def test_an_object_without_the_key_metadata_gets_labels() -> None:
    assert transformed(SECRET, {}) == {"metadata": {"labels": OURS}}


@pytest.mark.parametrize(
    "type_",
    [
        "kubernetes:core/v1:ConfigMapList",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRolePatch",
        "kubernetes:helm.sh/v3:Release",
        "pulumi:providers:kubernetes",
        "aws:s3:Bucket",
    ],
)
def test_what_is_no_object_of_the_program_is_left_alone(type_: str) -> None:
    assert transformed(type_, {"metadata": {"name": "a"}}) is None


def test_an_object_that_somebody_else_writes_too_and_a_component_are_left_alone() -> None:
    assert transformed(SECRET, {"metadata": {"labels": {"app.kubernetes.io/part-of": "theirs"}}}) is None
    assert transformed(SECRET, {"metadata": {}}, custom=False) is None


def test_labelling_twice_is_labelling_once() -> None:
    assert transformed(SECRET, transformed(SECRET, {"metadata": {"name": "a"}})) is None


async def test_outputs_are_merged_where_they_are() -> None:
    whole = transformed(SECRET, {"metadata": pulumi.Output.from_input({"name": "a"})})
    assert await whole["metadata"].future() == {"name": "a", "labels": OURS}
    labels = transformed(SECRET, {"metadata": {"name": "a", "labels": pulumi.Output.from_input({"own": "1"})}})
    assert labels["metadata"]["name"] == "a"
    assert await labels["metadata"]["labels"].future() == {**OURS, "own": "1"}


def test_the_sdks_input_class_keeps_its_fields_under_its_names() -> None:
    metadata = k8s.meta.v1.ObjectMetaArgs(name="a", generate_name="b")
    args = pulumi.ResourceTransformationArgs(
        None,
        SECRET,
        "name",
        {"metadata": metadata},
        pulumi.ResourceOptions(),  # type: ignore[arg-type] # not read
    )
    result = common_labels("prod")(args)
    assert result is not None
    assert result.props == {"metadata": {"name": "a", "generate_name": "b", "labels": OURS}}
