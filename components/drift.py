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

    def __call__(self, args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        """Annotate an object whose conflicts are forced; leave all others as they are."""
        if not args.type_.startswith("kubernetes:") or not isinstance(args.props, dict):
            return None
        metadata = args.props["metadata"]
        name = f"{args.type_.rpartition(':')[2]}/{metadata.get('name')}"
        self._seen.add(name)
        if args.type_ not in FORCED_TYPES and name not in self._names:
            return None
        annotated = {**metadata, "annotations": {**(metadata.get("annotations") or {}), FORCE: "true"}}
        return pulumi.ResourceTransformationResult({**args.props, "metadata": annotated}, args.opts)

    def unknown(self) -> list[str]:
        """The listed names that no object of the program had."""
        return sorted(self._names - self._seen)

    def known(self) -> list[str]:
        """All objects that the program made so far, as `Kind/name`."""
        return sorted(self._seen)
