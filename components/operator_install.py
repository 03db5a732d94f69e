"""The operator: its identity, its rights and its Deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand
from scheduler.catalog import INSTANCE_NAME, OPERAND, STATUS_KINDS, operand_name, static_cluster_roles

from ._operator_rules import Instance, cluster_rules, namespace_rules
from .kube_object import child, cluster_role_binding, in_kubernetes_spelling, name_of, namespace_of, rollout_timeouts
from .labels import COMPONENT

OPERATOR_NAME = "secondary-scheduler-operator"
_COMMAND = "/bin/secondary-scheduler-operator"
HEALTH_PORT = 8080
METRICS_PORT = 8443
_RBAC = "rbac.authorization.k8s.io"
_POD_LABELS = {"name": OPERATOR_NAME}


@dataclass(frozen=True)
class OperatorInstallArgs:
    """Attributes:
    namespace: where the operator runs; it serves the instance `cluster` of this namespace.
    image: the operator's image.
    needs: what must exist before the operator starts; above all the CRD that it watches.
    instances: further instances that it serves, by namespace (None: its own) and name. Their namespaces must exist.
    status_of: plurals of the kinds of scheduler-plugins whose status it maintains.
    secrets: names of further Secrets that schedulers mount; it looks whether they exist, and may read no others.
    openshift: whether admission chooses the numeric user.
    cluster_role_name: of its ClusterRole and the binding; an operator in another namespace needs another one.
    ready_seconds: how long the operator may take to become ready before the update fails.
    rebalancers: whether it may run rebalancers, which evict pods.
    """

    namespace: pulumi.Input[str]
    image: pulumi.Input[str]
    needs: Sequence[pulumi.Resource] = ()
    instances: Sequence[tuple[str | None, str]] = ()
    status_of: Sequence[str] = STATUS_KINDS
    secrets: Sequence[str] = ()
    openshift: bool = False
    cluster_role_name: pulumi.Input[str] = OPERATOR_NAME
    ready_seconds: int = 180
    rebalancers: bool = False

    @property
    def elsewhere(self) -> list[str]:
        """Further namespaces with instances."""
        return sorted({namespace for namespace, _ in self.instances if namespace is not None})

    def names_in(self, namespace: str | None) -> list[str]:
        """Names of the instances in a namespace, None being the operator's own."""
        own = {INSTANCE_NAME} if namespace is None else set()
        return sorted(
            own | {name for namespace_of_instance, name in self.instances if namespace_of_instance == namespace}
        )

    @property
    def watched_secrets(self) -> list[str]:
        """Names of the Secrets that it watches in every namespace."""
        operands = {operand_name(name) for namespace in (None, *self.elsewhere) for name in self.names_in(namespace)}
        usual = (name for each in operands for name in operand.secret_names(each))
        return sorted({*usual, *self.secrets})

    def all_instances(self, own: str) -> list[Instance]:
        """Every instance, given the operator's own namespace."""
        return [(namespace or own, name) for namespace in (None, *self.elsewhere) for name in self.names_in(namespace)]


class OperatorInstall(pulumi.ComponentResource):
    """The operator from explicit objects; done when its Deployment is available.

    It does not own the static ClusterRoles that it binds schedulers to: see `SchedulerRoles`.
    """

    namespace: pulumi.Output[str]
    version: pulumi.Output[str]
    service_account_name: pulumi.Output[str]

    def __init__(self, name: str, args: OperatorInstallArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:OperatorInstall", name, None, opts)
        self._prefix = name
        account = k8s.core.v1.ServiceAccount(
            f"{name}-serviceaccount",
            metadata={"name": OPERATOR_NAME, "namespace": args.namespace},
            opts=child(self),
        )
        self.service_account_name = name_of(account)
        rights = self._operator_rights(args)
        deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata={
                "name": OPERATOR_NAME,
                "namespace": args.namespace,
                "labels": {**_POD_LABELS, COMPONENT: "operator"},
            },
            spec=in_kubernetes_spelling(_deployment_spec(args, self.service_account_name)),
            # A controller that starts before it has its rights begins with errors.
            opts=child(self, depends_on=[*rights, *args.needs], custom_timeouts=rollout_timeouts(args.ready_seconds)),
        )
        self.namespace = namespace_of(deployment)
        self.version = pulumi.Output.from_input(args.image)
        self.register_outputs({"namespace": self.namespace, "version": self.version})

    def _operator_rights(self, args: OperatorInstallArgs) -> list[pulumi.Resource]:
        bindable = tuple(static_cluster_roles())
        everywhere = pulumi.Output.from_input(args.namespace).apply(
            lambda own: cluster_rules(bindable, args.all_instances(own), args.status_of, rebalancers=args.rebalancers)
        )
        objects = self._cluster_role(args, everywhere)
        for namespace in (None, *args.elsewhere):
            objects += self._role(args, namespace_rules(args.names_in(namespace), args.watched_secrets), namespace)
        return objects

    def _cluster_role(self, args: OperatorInstallArgs, rules: pulumi.Input[Any]) -> list[pulumi.Resource]:
        metadata: k8s.meta.v1.ObjectMetaArgsDict = {
            "name": args.cluster_role_name,
            "labels": {COMPONENT: "operator"},
        }
        role = k8s.rbac.v1.ClusterRole(
            f"{self._prefix}-clusterrole", metadata=metadata, rules=in_kubernetes_spelling(rules), opts=child(self)
        )
        binding = cluster_role_binding(
            f"{self._prefix}-clusterrolebinding", metadata, name_of(role), [self._subject(args)], child(self)
        )
        return [role, binding]

    def _role(
        self, args: OperatorInstallArgs, rules: list[dict[str, Any]], namespace: str | None
    ) -> list[pulumi.Resource]:
        """Create a Role with these rules and its binding; `namespace` None: the operator's own."""
        suffix = f"-{namespace}" if namespace else ""
        metadata: k8s.meta.v1.ObjectMetaArgsDict = {
            "name": OPERATOR_NAME,
            "namespace": namespace or args.namespace,
            "labels": {COMPONENT: "operator"},
        }
        role = k8s.rbac.v1.Role(
            f"{self._prefix}-role{suffix}", metadata=metadata, rules=in_kubernetes_spelling(rules), opts=child(self)
        )
        binding = k8s.rbac.v1.RoleBinding(
            f"{self._prefix}-rolebinding{suffix}",
            metadata=metadata,
            role_ref={"api_group": _RBAC, "kind": "Role", "name": name_of(role)},
            subjects=[self._subject(args)],
            opts=child(self),
        )
        return [role, binding]

    def _subject(self, args: OperatorInstallArgs) -> k8s.rbac.v1.SubjectArgsDict:
        return {"kind": "ServiceAccount", "name": self.service_account_name, "namespace": args.namespace}


def _deployment_spec(args: OperatorInstallArgs, service_account: pulumi.Input[str]) -> dict[str, Any]:
    return {
        "replicas": 1,
        "selector": {"matchLabels": _POD_LABELS},
        # The old operator works until the new one has started: that is ready while it waits for the Lease, and an
        # image that cannot be pulled leaves the old one in place.
        "strategy": dict(operand.ROLLING_UPDATE),
        "template": {
            "metadata": {"labels": _POD_LABELS, "annotations": {"openshift.io/required-scc": "restricted-v2"}},
            "spec": {
                "serviceAccountName": service_account,
                "securityContext": operand.pod_security(openshift=args.openshift),
                "containers": [_container(args)],
                "volumes": [operand.temporary_volume()],
            },
        },
    }


def _arguments(args: OperatorInstallArgs) -> list[str]:
    """The arguments that differ from the operator's defaults."""
    flags = [f"--watch-namespaces={','.join(args.elsewhere)}"] if args.elsewhere else []
    if set(args.status_of) != set(STATUS_KINDS):
        flags.append(f"--status-of={','.join(args.status_of) or 'none'}")
    if args.watched_secrets != sorted(operand.secret_names(OPERAND)):
        flags.append(f"--secrets={','.join(args.watched_secrets)}")
    return flags


def _container(args: OperatorInstallArgs) -> dict[str, Any]:
    def field(path: str) -> dict[str, Any]:
        # With the API server's default: a fieldRef is atomic in server-side apply, and without it, the update that
        # adopts what kubectl applied from the very same manifest ends with a conflict.
        return {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}

    def probe(path: str) -> dict[str, Any]:
        return {"httpGet": {"path": path, "port": HEALTH_PORT, "scheme": "HTTP"}, "periodSeconds": 5}

    arguments = _arguments(args)
    return {
        "name": OPERATOR_NAME,
        "image": args.image,
        "command": [_COMMAND],
        **({"args": arguments} if arguments else {}),
        "env": [
            {"name": "POD_NAME", "valueFrom": field("metadata.name")},
            {"name": "POD_NAMESPACE", "valueFrom": field("metadata.namespace")},
            {"name": "POD_IP", "valueFrom": field("status.podIP")},
        ],
        "ports": [
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        # The liveness probe waits for the first answer, however slow the node is.
        "startupProbe": {**probe("/healthz"), "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**probe("/healthz"), "failureThreshold": 6},
        "readinessProbe": probe("/readyz"),
        "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": operand.CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a path in the container
    }


@dataclass(frozen=True)
class ExistingOperatorArgs:
    """Attributes:
    namespace: where the operator runs.
    """

    namespace: pulumi.Input[str]


class ExistingOperator(pulumi.ComponentResource):
    """Creates nothing and checks nothing: if the operator is missing, the scheduler does not become ready."""

    namespace: pulumi.Output[str]
    version: pulumi.Output[str]

    def __init__(self, name: str, args: ExistingOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:ExistingOperator", name, None, opts)
        self.namespace = pulumi.Output.from_input(args.namespace)
        self.version = pulumi.Output.from_input("")
        self.register_outputs({"namespace": self.namespace, "version": self.version})
