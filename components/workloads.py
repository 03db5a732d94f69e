"""A transform that has a program's own workloads scheduled by this scheduler."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pulumi

from scheduler.catalog import SYSTEM_PRIORITY_CLASSES

_TEMPLATE = ("spec", "template", "spec")
_POD_SPECS: Mapping[str, tuple[str, ...]] = {
    "Deployment": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "Pod": ("spec",),
}
"""Where an object of a kind has its pods' spec. No DaemonSet: its pods have one node each, and are needed first."""
_GROUPS = {"Pod": "core/v1", "Job": "batch/v1", "CronJob": "batch/v1"}
_NO_NAMESPACE = "default"


def schedule_by(
    name: pulumi.Input[str], *, namespaces: Collection[str] | None = None, kinds: Collection[str] | None = None
) -> Callable[[pulumi.ResourceTransformArgs], pulumi.ResourceTransformResult | None]:
    """Return a transform that sets schedulerName in pods and pod templates that name none.

    For `pulumi.runtime.register_resource_transform`, or `transforms` of a resource. An object that names a scheduler
    keeps it, and so does one with a node or with a priority class of the system.

    Args:
        name: the schedulerName; an Output of the installation makes the workloads wait for the scheduler.
        namespaces: of the objects; None: any. An object without one counts as in `default`.
        kinds: among Deployment, StatefulSet, ReplicaSet, Job, CronJob and Pod; None: all of them.

    Raises:
        ValueError: there is no such kind.
    """
    chosen = set(_POD_SPECS) if kinds is None else set(kinds)
    if unknown := sorted(chosen - set(_POD_SPECS)):
        raise ValueError(f"schedule_by: kinds: {', '.join(unknown)}: not among {', '.join(_POD_SPECS)}")
    paths = {f"kubernetes:{_GROUPS.get(kind, 'apps/v1')}:{kind}": _POD_SPECS[kind] for kind in chosen}
    chosen_namespaces = None if namespaces is None else frozenset(namespaces)

    def transform(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        path = paths.get(args.type_)
        if path is None:
            return None
        if chosen_namespaces is None:
            changed = _with_name(args.props, path, name)
        else:
            changed = _in_namespaces(args.props, path, name, chosen_namespaces)
        return None if changed is args.props else pulumi.ResourceTransformResult(changed, args.opts)

    return transform


def _in_namespaces(
    props: Mapping[str, Any], path: tuple[str, ...], name: pulumi.Input[str], chosen_namespaces: Collection[str]
) -> Mapping[str, Any]:
    metadata = props.get("metadata") or {}
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else metadata
    if not isinstance(namespace, pulumi.Output):
        return _with_name(props, path, name) if (namespace or _NO_NAMESPACE) in chosen_namespaces else props

    def if_chosen(resolved: list[Any]) -> Any:
        value, spec = resolved
        if isinstance(value, Mapping):
            value = value.get("namespace")
        return _with_name({"spec": spec}, path, name)["spec"] if (value or _NO_NAMESPACE) in chosen_namespaces else spec

    # Only the spec depends on what is not known yet: the metadata must stay known, or a preview plans replacements.
    return {**props, "spec": pulumi.Output.all(namespace, props.get("spec")).apply(if_chosen)}


def _with_name(props: Any, path: tuple[str, ...], name: pulumi.Input[str]) -> Any:
    """Return the properties with the name at a path; the same object where nothing is to be changed."""
    if isinstance(props, pulumi.Output):
        return props.apply(lambda resolved: _with_name(resolved, path, name))
    if not isinstance(props, Mapping):
        return props
    if not path:
        is_placed = props.get("schedulerName") or props.get("nodeName")
        critical = props.get("priorityClassName")
        if is_placed or (isinstance(critical, str) and critical in SYSTEM_PRIORITY_CLASSES):
            return props
        return {**props, "schedulerName": name}
    key, *rest = path
    changed = _with_name(props.get(key), tuple(rest), name)
    return props if changed is props.get(key) else {**props, key: changed}
