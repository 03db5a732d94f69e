"""OpenShift's own operator from explicit objects, those of its repository's `deploy/`, with any image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.kube_object import KubeObject, child
from components.labels import COMPONENT
from scheduler import operand
from scheduler.catalog import GO_CLUSTER_ROLES, PolicyRule

_NAME = "secondary-scheduler-operator"
_RBAC = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_MOST = (*_READ, "create", "update", "patch", "delete")
_ALL = (*_MOST, "deletecollection")
_CLUSTER_RULES = (
    PolicyRule(("operator.openshift.io",), ("secondaryschedulers", "secondaryschedulers/status"), _ALL),
    PolicyRule(("",), ("serviceaccounts", "configmaps", "events", "services", "endpoints"), _ALL),
    PolicyRule(("",), ("secrets",), _READ),
    PolicyRule((_RBAC,), ("clusterrolebindings", "roles", "rolebindings"), _ALL),
    PolicyRule(("apps",), ("deployments",), _ALL),
    PolicyRule(("coordination.k8s.io",), ("leases",), (*_READ, "create", "update")),
    PolicyRule(("config.openshift.io",), ("infrastructures", "apiservers"), _READ),
    PolicyRule(("monitoring.coreos.com",), ("servicemonitors",), (*_READ, "create", "update", "patch")),
    PolicyRule(("networking.k8s.io",), ("networkpolicies",), _MOST),
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
    """

    namespace: pulumi.Input[str]
    image: str
    needs: Sequence[pulumi.Resource] = ()
    openshift: bool = False


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
        self._account = self._object("serviceaccount", "v1", "ServiceAccount", namespaced=True)
        rights = [
            self._object(
                "clusterrole", f"{_RBAC}/v1", "ClusterRole", rules=[rule.to_dict() for rule in _CLUSTER_RULES]
            ),
            self._binding("clusterrolebinding", f"{_NAME}-role-binding", _NAME),
            self._object(
                "role", f"{_RBAC}/v1", "Role", namespaced=True, rules=[rule.to_dict() for rule in _ROLE_RULES]
            ),
            self._object(
                "rolebinding",
                f"{_RBAC}/v1",
                "RoleBinding",
                namespaced=True,
                roleRef={"apiGroup": _RBAC, "kind": "Role", "name": _NAME},
                subjects=self._subjects(),
            ),
            *(
                self._binding(f"binding-{role.replace(':', '-')}", f"{_NAME}-{role.replace(':', '-')}", role)
                for role in GO_CLUSTER_ROLES
            ),
        ]
        deployment = self._object(
            "deployment",
            "apps/v1",
            "Deployment",
            namespaced=True,
            depends_on=[*rights, *args.needs],
            spec=self._deployment_spec(),
        )
        self.namespace = deployment.metadata.apply(lambda metadata: str(metadata["namespace"]))
        self.version = pulumi.Output.from_input(args.image)
        self.register_outputs({"namespace": self.namespace, "version": self.version})

    def _subjects(self) -> list[dict[str, Any]]:
        account = {"name": self._account.object_name, "namespace": self._args.namespace}
        return [{"kind": "ServiceAccount", **account}]

    def _binding(self, suffix: str, name: str, role: str) -> KubeObject:
        reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
        return self._object(
            suffix, f"{_RBAC}/v1", "ClusterRoleBinding", name, roleRef=reference, subjects=self._subjects()
        )

    def _object(
        self,
        suffix: str,
        api_version: str,
        kind: str,
        name: str = _NAME,
        *,
        namespaced: bool = False,
        depends_on: Sequence[pulumi.Resource] = (),
        **content: Any,
    ) -> KubeObject:
        metadata: dict[str, Any] = {"name": name, "labels": {COMPONENT: "operator"}}
        if namespaced:
            metadata["namespace"] = self._args.namespace
        manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
        return KubeObject(f"{self._prefix}-{suffix}", manifest, child(self, depends_on=depends_on))

    def _deployment_spec(self) -> dict[str, Any]:
        labels = {"name": _NAME}
        container = {
            "name": _NAME,
            "image": self._args.image,
            "command": [_NAME],
            "args": ["operator"],
            "env": [
                {"name": "WATCH_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
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
                    "serviceAccountName": self._account.object_name,
                    # The image's user is not numeric; only OpenShift assigns a numeric one.
                    "securityContext": operand.pod_security(openshift=self._args.openshift),
                    "containers": [container],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        }
