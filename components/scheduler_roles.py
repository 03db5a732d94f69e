"""The static ClusterRoles of schedulers: one for what every scheduler does, one per plugin that needs more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.kube_object import KubeObject, child
from components.labels import COMPONENT, PART_OF, PROJECT
from scheduler import operand
from scheduler.catalog import OPERAND, PolicyRule, cluster_role_binding_name

_RBAC = "rbac.authorization.k8s.io/v1"
_SCHEDULER = "scheduler"
_BEFORE = ("operator", "secondary-scheduler:components:OperatorInstall")
"""Name and type of the component whose children the roles once were."""


@dataclass(frozen=True)
class SchedulerRolesArgs:
    """Attributes:
    roles: rules by the role's name.
    bind: roles, these or the cluster's own, to which the account of the scheduler is bound.
    namespace: of that account.
    bundled: those of the roles that OLM writes too, from the operator's bundle.
    needs: what must be there before; above all the record of the mode.
    """

    roles: Mapping[str, Sequence[PolicyRule]]
    bind: Sequence[str] = ()
    namespace: pulumi.Input[str] = ""
    bundled: Collection[str] = ()
    needs: Sequence[pulumi.Resource] = ()


def bundled_role(role: str, rules: Sequence[PolicyRule]) -> dict[str, Any]:
    """A role as the operator's bundle for OLM has it, and as this program makes it where OLM installs that bundle.

    Both write the whole object, so it is the same for both: each InstallPlan takes labels and annotations off that the
    bundle has not. It has no label with an owner: OLM deletes what bears the name of a ClusterServiceVersion when that
    is replaced, while the InstallPlan of the next one is still writing roles of the same names.
    """
    return {
        "apiVersion": _RBAC,
        "kind": "ClusterRole",
        "metadata": {
            "name": role,
            "labels": {PART_OF: PROJECT, COMPONENT: _SCHEDULER},
            # Rules that another version's bundle has changed are put back: they follow from the stack's image.
            "annotations": {"pulumi.com/patchForce": "true"},
        },
        "rules": [rule.to_dict() for rule in rules],
    }


class SchedulerRoles(pulumi.ComponentResource):
    """The roles, so that a scheduler gets those of its plugins and no more, and the bindings where nobody else makes
    them: our operator does, upstream's binds the cluster's own roles only."""

    names: list[pulumi.Output[str]]

    def __init__(self, name: str, args: SchedulerRolesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SchedulerRoles", name, None, opts)
        self._prefix = name
        self._needs = args.needs
        roles = {role: self._role(role, rules, role in args.bundled) for role, rules in args.roles.items()}
        self.names = [role.object_name for role in roles.values()]
        for role in args.bind:
            self._binding(role, args.namespace, [roles[role]] if role in roles else [])
        self.register_outputs({"names": self.names})

    def _role(self, role: str, rules: Sequence[PolicyRule], bundled: bool) -> KubeObject:
        suffix = f"role-{_dashed(role)}"
        options = child(self, depends_on=self._needs)
        options.aliases = [pulumi.Alias(name=f"{_BEFORE[0]}-{suffix}", parent=pulumi.create_urn(*_BEFORE))]
        manifest = bundled_role(role, rules)
        if not bundled:
            manifest["metadata"] = {"name": role, "labels": {COMPONENT: _SCHEDULER}}
        return KubeObject(f"{self._prefix}-{suffix}", manifest, options)

    def _binding(self, role: str, namespace: pulumi.Input[str], needs: Sequence[pulumi.Resource]) -> None:
        namespace_output = pulumi.Output.from_input(namespace)
        manifest = {
            "apiVersion": _RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {
                # The operator writes bindings of these names, too: derived from the namespace, they go with the mode.
                "name": namespace_output.apply(lambda value: cluster_role_binding_name(role, value)),
                "labels": {COMPONENT: _SCHEDULER},
            },
            "roleRef": operand.cluster_role_ref(role),
            "subjects": [namespace_output.apply(lambda value: operand.account(OPERAND, value))],
        }
        KubeObject(f"{self._prefix}-binding-{_dashed(role)}", manifest, child(self, depends_on=needs))


def _dashed(role: str) -> str:
    return role.replace(":", "-")
