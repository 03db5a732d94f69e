"""Vocabulary of labels, and the transformation that puts the common ones on every object."""

from __future__ import annotations

from collections.abc import Callable

import pulumi

PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "app.kubernetes.io/managed-by"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
PROJECT = "secondary-scheduler"
"""What everything is part of."""


def common_labels(
    stack: str,
) -> Callable[[pulumi.ResourceTransformationArgs], pulumi.ResourceTransformationResult | None]:
    """A stack transformation that labels every Kubernetes object as ours and with the stack that made it.

    Only `metadata.labels` of the object itself is touched: a label in a pod template would restart pods and one in a
    selector cannot be changed. Labels that the object gives itself win, and one that says itself what it is part of
    gets no others: somebody else writes it too, and would take them off.
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
