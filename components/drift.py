"""Objects that are applied with force: their fields are taken over from other managers, as by `--force-conflicts`."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

FORCE = "pulumi.com/patchForce"
"""Annotation of an object whose fields the provider takes from every other manager."""
_RBAC = "rbac.authorization.k8s.io/v1"
FORCED_TYPES = frozenset(
    f"kubernetes:{kind}"
    for kind in (
        "core/v1:Namespace",
        "core/v1:ServiceAccount",
        f"{_RBAC}:ClusterRole",
        f"{_RBAC}:ClusterRoleBinding",
        f"{_RBAC}:Role",
        f"{_RBAC}:RoleBinding",
        "scheduling.k8s.io/v1:PriorityClass",
    )
)
"""Types of objects that nobody tunes: whoever changed a field that the stack sets, `pulumi up --refresh` restores it.

All others stay unforced: somebody who scaled a Deployment or changed the SecondaryScheduler by hand may have meant it,
so the update names field and manager and fails.
"""


class ForceConflicts:
    """The stack transformation that forces conflicts of objects: of `FORCED_TYPES`, and those that `names` lists.

    `names` are `Kind/name`, such as `Deployment/secondary-scheduler-operator`, for one update. The provider cannot see
    entries that were appended to a list; `secondary-scheduler fleet refresh --preview-only` finds those.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._seen: set[str] = set()
        self._late: set[str] = set()
        """Kinds with objects whose names are known only while the update runs."""

    def __call__(self, args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        """Annotate an object whose conflicts are forced; leave all others as they are."""
        if not args.type_.startswith("kubernetes:") or not isinstance(args.props, dict):
            return None
        metadata = args.props["metadata"]
        kind, name = args.type_.rpartition(":")[2], metadata.get("name")
        annotations = metadata.get("annotations") or {}
        forced: pulumi.Input[dict[str, str]] = {**annotations, FORCE: "true"}
        if isinstance(name, pulumi.Output):
            self._late.add(kind)
            if args.type_ not in FORCED_TYPES:
                if not any(listed.startswith(f"{kind}/") for listed in self._names):
                    return None
                forced = name.apply(
                    lambda resolved: (
                        {**annotations, FORCE: "true"} if f"{kind}/{resolved}" in self._names else annotations
                    )
                )
        else:
            self._seen.add(f"{kind}/{name}")
            if args.type_ not in FORCED_TYPES and f"{kind}/{name}" not in self._names:
                return None
        annotated = {**metadata, "annotations": forced}
        return pulumi.ResourceTransformationResult({**args.props, "metadata": annotated}, args.opts)

    def unknown(self) -> list[str]:
        """The listed names that no object of the program has; not those that an object may yet get."""
        return sorted(name for name in self._names - self._seen if name.partition("/")[0] not in self._late)

    def objects(self) -> list[str]:
        """All objects that the program made so far, as `Kind/name`."""
        return sorted(self._seen)
