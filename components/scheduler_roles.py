"""The static ClusterRoles of schedulers: one for what every scheduler does, one per plugin that needs more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand
from scheduler.catalog import OPERAND, PolicyRule, cluster_role_binding_name

from .kube_object import child, in_kubernetes_spelling, name_of
from .labels import COMPONENT, PART_OF, PROJECT

_RBAC = "rbac.authorization.k8s.io/v1"
_SCHEDULER = "scheduler"
_BEFORE = ("operator", "secondary-scheduler:components:OperatorInstall")
"""Name and type of the component that was the roles' parent in older versions, for aliases."""


@dataclass(frozen=True)
class SchedulerRolesArgs:
    """Attributes:
    roles: rules by the role's name.
    bind: roles, these or the cluster's own, to bind the scheduler's ServiceAccount to.
    namespace: of that ServiceAccount.
    bundled: those of the roles that OLM writes too, from the operator's bundle.
    needs: what must exist before; above all the record of the install mode.
    """

    roles: Mapping[str, Sequence[PolicyRule]]
    bind: Sequence[str] = ()
    namespace: pulumi.Input[str] = ""
    bundled: Collection[str] = ()
    needs: Sequence[pulumi.Resource] = ()


def bundled_role(role: str, rules: Sequence[PolicyRule]) -> dict[str, Any]:
    """Return a role as the operator's OLM bundle has it, and as this program creates it where OLM installs that bundle.

    Both write the whole object, so both must write the same: each InstallPlan removes labels and annotations that the
    bundle does not have. It has no owner label: OLM deletes objects labelled with a ClusterServiceVersion's name when
    that version is replaced, while the next InstallPlan is still writing roles of the same names.
    """
    return {
        "apiVersion": _RBAC,
        "kind": "ClusterRole",
        "metadata": {
            "name": role,
            "labels": {PART_OF: PROJECT, COMPONENT: _SCHEDULER},
            # Rules that the bundle of another version has changed are restored: they follow from the stack's image.
            "annotations": {"pulumi.com/patchForce": "true"},
        },
        "rules": [rule.to_dict() for rule in rules],
    }


class SchedulerRoles(pulumi.ComponentResource):
    """The roles, so that a scheduler gets only the rights of its plugins, and the bindings where nobody else creates
    them: our operator does, upstream's binds only the cluster's own roles."""

    names: list[pulumi.Output[str]]

    def __init__(self, name: str, args: SchedulerRolesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SchedulerRoles", name, None, opts)
        self._prefix = name
        self._needs = args.needs
        roles = {role: self._role(role, rules, role in args.bundled) for role, rules in args.roles.items()}
        self.names = [name_of(role) for role in roles.values()]
        for role in args.bind:
            self._binding(role, args.namespace, [roles[role]] if role in roles else [])
        self.register_outputs({"names": self.names})

    def _role(self, role: str, rules: Sequence[PolicyRule], bundled: bool) -> k8s.rbac.v1.ClusterRole:
        suffix = f"role-{_dashed(role)}"
        options = child(self, depends_on=self._needs)
        options.aliases = [pulumi.Alias(name=f"{_BEFORE[0]}-{suffix}", parent=pulumi.create_urn(*_BEFORE))]
        manifest = bundled_role(role, rules)
        if not bundled:
            manifest["metadata"] = {"name": role, "labels": {COMPONENT: _SCHEDULER}}
        return k8s.rbac.v1.ClusterRole(
            f"{self._prefix}-{suffix}",
            metadata=in_kubernetes_spelling(manifest["metadata"]),
            rules=in_kubernetes_spelling(manifest["rules"]),
            opts=options,
        )

    def _binding(self, role: str, namespace: pulumi.Input[str], needs: Sequence[pulumi.Resource]) -> None:
        namespace_output = pulumi.Output.from_input(namespace)
        k8s.rbac.v1.ClusterRoleBinding(
            f"{self._prefix}-binding-{_dashed(role)}",
            metadata={
                # The operator writes bindings of these names too, so a change of mode must delete them first: the
                # name depends on the mode's namespace.
                "name": namespace_output.apply(lambda value: cluster_role_binding_name(role, value)),
                "labels": {COMPONENT: _SCHEDULER},
            },
            role_ref=in_kubernetes_spelling(operand.cluster_role_ref(role)),
            subjects=in_kubernetes_spelling([namespace_output.apply(lambda value: operand.account(OPERAND, value))]),
            opts=child(self, depends_on=needs),
        )


def _dashed(role: str) -> str:
    return role.replace(":", "-")
