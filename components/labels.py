"""The labels, and the transforms that set the common ones on every object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pulumi

PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "app.kubernetes.io/managed-by"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
PROJECT = "secondary-scheduler"
"""Value of `app.kubernetes.io/part-of` of every object."""


def common_labels(
    stack: str,
) -> Callable[[pulumi.ResourceTransformationArgs], pulumi.ResourceTransformationResult | None]:
    """A stack transformation that labels every Kubernetes object as ours and with the stack that made it.

    Only `metadata.labels` of the object itself is changed: a label in a pod template would restart pods, and a selector
    is immutable. Labels that the object has win. An object with its own `part-of` gets no labels: somebody else writes
    it too, and would remove them. It sees the resources that this program makes itself, also under mocks.
    """

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        labelled = _labelled(args.type_, args.props, stack)
        return None if labelled is None else pulumi.ResourceTransformationResult(labelled, args.opts)

    return transform


def common_labels_transform(
    stack: str,
) -> Callable[[pulumi.ResourceTransformArgs], pulumi.ResourceTransformResult | None]:
    """The same for `pulumi.runtime.register_resource_transform`: the engine calls it for the resources of packaged
    components, too. The SDK refuses it under mocks."""

    def transform(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        labelled = _labelled(args.type_, args.props, stack) if args.custom else None
        return None if labelled is None else pulumi.ResourceTransformResult(labelled, args.opts)

    return transform


def _labelled(type_: str, props: object, stack: str) -> dict[str, Any] | None:
    """Return a resource's properties with the labels, or None where nothing is to be changed."""
    if not isinstance(props, Mapping) or not _is_object(type_):
        return None
    labels = {PART_OF: PROJECT, MANAGED_BY: "pulumi", INSTANCE: stack}

    def merged_labels(own: Mapping[str, Any] | None) -> Mapping[str, Any]:
        own = own or {}
        return own if PART_OF in own else {**labels, **own}

    def merged(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
        metadata = metadata or {}
        own = metadata.get("labels")
        return {
            **metadata,
            "labels": own.apply(merged_labels) if isinstance(own, pulumi.Output) else merged_labels(own),
        }

    metadata = props.get("metadata")
    if isinstance(metadata, pulumi.Output):
        # Only what is an Output already: known metadata must stay known, or a preview plans replacements.
        return {**props, "metadata": metadata.apply(merged)}
    if metadata is not None and not isinstance(metadata, Mapping):
        metadata = _of_input_type(metadata)
    new = merged(metadata)
    return None if new == metadata else {**props, "metadata": new}


def _is_object(type_: str) -> bool:
    """Tell whether a type is a Kubernetes object of its own: no list of objects, no patch of somebody else's."""
    provider, _, rest = type_.partition(":")
    group, _, kind = rest.partition(":")
    packaged = group.startswith(("helm.sh/", "yaml", "kustomize"))
    return provider == "kubernetes" and not packaged and not kind.endswith(("List", "Patch"))


def _of_input_type(metadata: object) -> dict[str, Any]:
    """Return the fields that are set of an `ObjectMetaArgs`, under the SDK's own names."""
    names = [name for name, member in inspect.getmembers(type(metadata)) if isinstance(member, property)]
    fields = {name: getattr(metadata, name) for name in names}
    return {name: value for name, value in fields.items() if value is not None}
