"""The labels, and the transformation that sets the common ones on every object."""

from __future__ import annotations

from collections.abc import Callable

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
    it too, and would remove them.
    """
    labels = {PART_OF: PROJECT, MANAGED_BY: "pulumi", INSTANCE: stack}

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith("kubernetes:") or not isinstance(args.props, dict):
            return None
        metadata = args.props["metadata"]
        own = metadata.get("labels", {})
        if PART_OF in own:
            return None
        labelled = {**metadata, "labels": {**labels, **own}}
        return pulumi.ResourceTransformationResult({**args.props, "metadata": labelled}, args.opts)

    return transform
