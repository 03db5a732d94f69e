"""OpenShift's own operator from explicit objects, those of its repository's `deploy/`, with any image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand
from scheduler.catalog import GO_CLUSTER_ROLES, PolicyRule

from ._inputs import joined
from .kube_object import child, cluster_role_binding, in_kubernetes_spelling, name_of, namespace_of, rollout_timeouts
from .labels import COMPONENT

_NAME = "secondary-scheduler-operator"
_RBAC = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_LIMIT = (*_READ, "create", "update", "patch", "delete")
_ALL = (*_LIMIT, "deletecollection")
_CLUSTER_RULES = (
    PolicyRule(("operator.openshift.io",), ("secondaryschedulers", "secondaryschedulers/status"), _ALL),
    PolicyRule(("",), ("serviceaccounts", "configmaps", "events", "services", "endpoints"), _ALL),
    PolicyRule(("",), ("secrets",), _READ),
    PolicyRule((_RBAC,), ("clusterrolebindings", "roles", "rolebindings"), _ALL),
    PolicyRule(("apps",), ("deployments",), _ALL),
    PolicyRule(("coordination.k8s.io",), ("leases",), (*_READ, "create", "update")),
    PolicyRule(("config.openshift.io",), ("infrastructures", "apiservers"), _READ),
    PolicyRule(("monitoring.coreos.com",), ("servicemonitors",), (*_READ, "create", "update", "patch")),
    PolicyRule(("networking.k8s.io",), ("networkpolicies",), _LIMIT),
)
"""As the ClusterServiceVersion of 1.6 has them."""
_ROLE_RULES = (
    PolicyRule(
        ("coordination.k8s.io",), ("leases",), (*_READ, "update", "patch"), resource_names=("secondary-scheduler",)
    ),
)


@dataclass(frozen=True)
class UpstreamOperatorArgs:
    """Attributes:
    namespace: where the operator runs; it serves the instance `cluster` of this namespace only.
    image: the operator's image.
    needs: what must exist before the operator starts; above all the CRD that it watches.
    openshift: whether admission chooses the numeric user.
    cluster_role_name: of its ClusterRole, and the beginning of its bindings' names.
    ready_seconds: how long the operator may take to become ready before the update fails.
    """

    namespace: pulumi.Input[str]
    image: pulumi.Input[str]
    needs: Sequence[pulumi.Resource] = ()
    openshift: bool = False
    cluster_role_name: pulumi.Input[str] = _NAME
    ready_seconds: int = 180


class UpstreamOperator(pulumi.ComponentResource):
    """The operator; done when its Deployment is available.

    Its ServiceAccount is bound to the roles of the cluster's own scheduler, because RBAC lets it grant only rights that
    it has itself.
    """

    namespace: pulumi.Output[str]
    version: pulumi.Output[str]

    def __init__(self, name: str, args: UpstreamOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:UpstreamOperator", name, None, opts)
        self._prefix = name
        self._args = args
        account = k8s.core.v1.ServiceAccount(f"{name}-serviceaccount", metadata=self._metadata(), opts=child(self))
        self._account_name = name_of(account)
        role_name = args.cluster_role_name
        rights = [
            k8s.rbac.v1.ClusterRole(
                f"{name}-clusterrole",
                metadata=_cluster_metadata(role_name),
                rules=in_kubernetes_spelling([rule.to_dict() for rule in _CLUSTER_RULES]),
                opts=child(self),
            ),
            self._cluster_role_binding("clusterrolebinding", joined(role_name, "-role-binding"), role_name),
            *self._role_and_binding(),
            *(
                self._cluster_role_binding(
                    f"binding-{role.replace(':', '-')}", joined(role_name, f"-{role.replace(':', '-')}"), role
                )
                for role in GO_CLUSTER_ROLES
            ),
        ]
        deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=self._metadata(),
            spec=in_kubernetes_spelling(self._deployment_spec()),
            opts=child(self, depends_on=[*rights, *args.needs], custom_timeouts=rollout_timeouts(args.ready_seconds)),
        )
        self.namespace = namespace_of(deployment)
        self.version = pulumi.Output.from_input(args.image)
        self.register_outputs({"namespace": self.namespace, "version": self.version})

    def _role_and_binding(self) -> list[pulumi.Resource]:
        role = k8s.rbac.v1.Role(
            f"{self._prefix}-role",
            metadata=self._metadata(),
            rules=in_kubernetes_spelling([rule.to_dict() for rule in _ROLE_RULES]),
            opts=child(self),
        )
        binding = k8s.rbac.v1.RoleBinding(
            f"{self._prefix}-rolebinding",
            metadata=self._metadata(),
            role_ref={"api_group": _RBAC, "kind": "Role", "name": _NAME},
            subjects=[self._subject()],
            opts=child(self),
        )
        return [role, binding]

    def _cluster_role_binding(self, suffix: str, name: pulumi.Input[str], role: pulumi.Input[str]) -> pulumi.Resource:
        return cluster_role_binding(
            f"{self._prefix}-{suffix}", _cluster_metadata(name), role, [self._subject()], child(self)
        )

    def _subject(self) -> k8s.rbac.v1.SubjectArgsDict:
        return {"kind": "ServiceAccount", "name": self._account_name, "namespace": self._args.namespace}

    def _metadata(self) -> k8s.meta.v1.ObjectMetaArgsDict:
        return {**_cluster_metadata(_NAME), "namespace": self._args.namespace}

    def _deployment_spec(self) -> dict[str, Any]:
        labels = {"name": _NAME}
        container = {
            "name": _NAME,
            "image": self._args.image,
            "command": [_NAME],
            "args": ["operator"],
            "env": [
                {
                    "name": "WATCH_NAMESPACE",
                    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                },
                {"name": "OPERATOR_NAME", "value": _NAME},
            ],
            "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
            "securityContext": operand.CONTAINER_SECURITY,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a path in the container
        }
        return {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {"openshift.io/required-scc": "restricted-v2"}},
                "spec": {
                    "serviceAccountName": self._account_name,
                    # The image's user is not numeric; only OpenShift assigns a numeric one.
                    "securityContext": operand.pod_security(openshift=self._args.openshift),
                    "containers": [container],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        }


def _cluster_metadata(name: pulumi.Input[str]) -> k8s.meta.v1.ObjectMetaArgsDict:
    return {"name": name, "labels": {COMPONENT: "operator"}}
