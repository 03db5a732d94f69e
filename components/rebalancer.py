"""A rebalancer beside the scheduler, with rights of its own: it may evict pods, and the scheduler may not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand
from scheduler.catalog import OPERAND, PolicyRule, base_rules, plugin_rules
from scheduler.config import Configuration, bound_rules

from ._inputs import joined
from .admission import cel, constraints
from .kube_object import child, in_kubernetes_spelling, name_of, rollout_timeouts
from .labels import COMPONENT
from .metric_access import MetricAccess
from .metric_credentials import SecretKeyReference
from .namespace import cluster_scoped_name
from .settings import RebalancerPlan, rebalancer_name

_COMMAND = "/bin/rebalancer"
_HEALTH_PORT, _METRICS_PORT = 8080, 8443
_SETTINGS_DIRECTORY, _SETTINGS_KEY = "/etc/rebalancer", "rebalance.yaml"
_READING = ("get", "list", "watch")
_RULES = (
    # What the safety rules read, whatever the plugins do.
    PolicyRule(("apps",), ("deployments", "replicasets", "statefulsets"), ("list", "watch")),
    PolicyRule(("",), ("replicationcontrollers",), ("list", "watch")),
    PolicyRule(("policy",), ("poddisruptionbudgets",), ("list", "watch")),
    PolicyRule(("metrics.k8s.io",), ("pods",), ("list",)),
    PolicyRule(("",), ("pods/eviction",), ("create",)),
    PolicyRule(("events.k8s.io",), ("events",), ("create", "patch")),
    # Who may read /metrics is the API server's to say.
    PolicyRule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    PolicyRule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)


@dataclass(frozen=True)
class RebalancerArgs:
    """Attributes:
    namespace: where the scheduler runs.
    plan: mode, and what may be moved.
    image: if the plan names none.
    configuration: of the scheduler, which says what its plugins read.
    config_map_name: the ConfigMap with that configuration.
    access: how the load source may be read.
    credentials: Secret with the credentials for it, if any.
    operand: name of the scheduler.
    network_policy: whether to limit what its pods may reach.
    egress_ports: TCP ports that it needs beside those of DNS, API servers and its source.
    openshift: whether admission chooses the numeric user.
    ready_seconds: how long it may take to list the cluster before the update fails.
    needs: what must exist before: the scheduler, as nothing is moved without it.
    admission_policies: let the API server refuse evictions of other schedulers' pods; needs Kubernetes 1.30.
    """

    namespace: pulumi.Input[str]
    plan: RebalancerPlan
    image: pulumi.Input[str]
    configuration: Configuration = field(repr=False)
    config_map_name: pulumi.Input[str]
    access: MetricAccess = field(default_factory=MetricAccess)
    credentials: SecretKeyReference | None = None
    operand: str = OPERAND
    network_policy: bool = True
    egress_ports: Sequence[int] = ()
    openshift: bool = False
    ready_seconds: int = 180
    needs: Sequence[pulumi.Resource] = ()
    admission_policies: bool = True


class Rebalancer(pulumi.ComponentResource):
    """Deployment, ServiceAccount, rights, settings and NetworkPolicy; done when it has listed the cluster."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: RebalancerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:Rebalancer", name, None, opts)
        self._prefix, self._args = name, args
        self._object_name = rebalancer_name(args.operand)
        self._labels = {operand.LABEL_APP: self._object_name, COMPONENT: "rebalancer"}
        self._settings = json.dumps(args.plan.settings, indent=1, sort_keys=True)
        metadata = self._metadata()
        account = k8s.core.v1.ServiceAccount(f"{name}-serviceaccount", metadata=metadata, opts=child(self))
        settings = k8s.core.v1.ConfigMap(
            f"{name}-configmap",
            metadata={**metadata, "name": f"{self._object_name}-settings"},
            data={_SETTINGS_KEY: self._settings},
            opts=child(self),
        )
        before: list[pulumi.Resource] = [account, *self._rights()]
        if args.network_policy:
            before.append(self._network_policy())
        if args.admission_policies:
            before += self._eviction_policy()
        deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata,
            spec=in_kubernetes_spelling(self._deployment(name_of(account), name_of(settings))),
            opts=child(
                self,
                depends_on=[*before, *args.needs],
                custom_timeouts=rollout_timeouts(args.ready_seconds),
            ),
        )
        self.name = name_of(deployment)
        self.register_outputs({"name": self.name})

    def _metadata(self) -> k8s.meta.v1.ObjectMetaArgsDict:
        return {"name": self._object_name, "namespace": self._args.namespace, "labels": self._labels}

    def _rights(self) -> list[pulumi.Resource]:
        """Reads as the scheduler's, evictions, Events; and in its namespace its Lease, its status, and the scheduler's
        health. No binding of pods, and no write that the scheduler's plugins make."""
        args, everywhere = self._args, cluster_scoped_name(self._object_name, self._args.namespace)
        rules = [rule.to_dict() for rule in rebalancer_rules(args.configuration)]
        cluster_role = k8s.rbac.v1.ClusterRole(
            f"{self._prefix}-clusterrole",
            metadata={"name": everywhere, "labels": self._labels},
            rules=in_kubernetes_spelling(rules),
            opts=child(self),
        )
        role = k8s.rbac.v1.Role(
            f"{self._prefix}-role",
            metadata=self._metadata(),
            rules=in_kubernetes_spelling(_rules_of_namespace(self._object_name, args.operand)),
            opts=child(self),
        )
        subjects = [{"kind": "ServiceAccount", "name": self._object_name, "namespace": args.namespace}]
        bindings: list[pulumi.Resource] = [
            self._cluster_binding("clusterrolebinding", everywhere, name_of(cluster_role), subjects),
            k8s.rbac.v1.RoleBinding(
                f"{self._prefix}-rolebinding",
                metadata=self._metadata(),
                role_ref=in_kubernetes_spelling(operand.role_ref(self._object_name)),
                subjects=in_kubernetes_spelling(subjects),
                opts=child(self, depends_on=[role]),
            ),
        ]
        source = args.access.cluster_role
        if source is not None:
            bindings.append(self._cluster_binding("metrics", joined(everywhere, "-", source), source, subjects))
        return [cluster_role, role, *bindings]

    def _cluster_binding(
        self, part: str, name: pulumi.Input[str], role: pulumi.Input[str], subjects: list[dict[str, Any]]
    ) -> pulumi.Resource:
        return k8s.rbac.v1.ClusterRoleBinding(
            f"{self._prefix}-{part}",
            metadata={"name": name, "labels": self._labels},
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            subjects=in_kubernetes_spelling(subjects),
            opts=child(self),
        )

    def _network_policy(self) -> pulumi.Resource:
        args = self._args
        egress = {*operand.source_ports(args.configuration), *args.egress_ports}
        spec = operand.network_policy_spec(self._selector(), [_HEALTH_PORT, _METRICS_PORT], egress)
        return k8s.networking.v1.NetworkPolicy(
            f"{self._prefix}-networkpolicy",
            metadata=self._metadata(),
            spec=in_kubernetes_spelling(spec),
            opts=child(self),
        )

    def _eviction_policy(self) -> list[pulumi.Resource]:
        """What RBAC cannot say: which pods. It holds for whoever has the ServiceAccount's token."""
        args, names = self._args, self._args.configuration.scheduler_names
        policy_name = cluster_scoped_name(f"{self._object_name}-evictions", args.namespace)
        metadata: k8s.meta.v1.ObjectMetaArgsDict = {"name": policy_name, "labels": self._labels}
        spec = pulumi.Output.from_input(args.namespace).apply(
            lambda namespace: evictions_policy(namespace, self._object_name, names)
        )
        policy = k8s.admissionregistration.v1.ValidatingAdmissionPolicy(
            f"{self._prefix}-evictions",
            metadata=metadata,
            spec=in_kubernetes_spelling(spec),
            opts=child(self),
        )
        # All pods of the namespace in which one is to be evicted.
        pods = {"selector": {}, "parameterNotFoundAction": "Deny"}
        enforced = {"policyName": name_of(policy), "validationActions": ["Deny"], "paramRef": pods}
        binding = k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
            f"{self._prefix}-evictions-binding",
            metadata=metadata,
            spec=in_kubernetes_spelling(enforced),
            opts=child(self),
        )
        return [policy, binding]

    def _selector(self) -> dict[str, str]:
        return {operand.LABEL_APP: self._object_name}

    def _deployment(self, account: pulumi.Input[str], settings: pulumi.Input[str]) -> dict[str, Any]:
        args = self._args
        annotations = {
            "openshift.io/required-scc": "restricted-v2",
            # A change of what may be moved takes effect with the update, not when the kubelet has noticed.
            "secondary-scheduler.io/settings-hash": hashlib.sha256(self._settings.encode()).hexdigest()[:16],
        }
        return {
            "replicas": 1,
            "selector": {"matchLabels": self._selector()},
            "strategy": dict(operand.ROLLING_UPDATE),
            "template": {
                "metadata": {"labels": self._labels, "annotations": annotations},
                "spec": {
                    "serviceAccountName": account,
                    "securityContext": operand.pod_security(openshift=args.openshift),
                    "containers": [self._container()],
                    "volumes": self._volumes(settings),
                },
            },
        }

    def _container(self) -> dict[str, Any]:
        args = self._args
        mounts: list[dict[str, Any]] = [
            {"name": operand.CONFIG_VOLUME, "mountPath": operand.CONFIG_DIRECTORY, "readOnly": True},
            {"name": "settings", "mountPath": _SETTINGS_DIRECTORY, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the container
        ]
        if self._credentials() is not None:
            directory = operand.METRIC_CREDENTIALS_DIRECTORY
            mounts.append({"name": operand.METRICS_VOLUME, "mountPath": directory, "readOnly": True})
        return {
            "name": "rebalancer",
            "image": args.plan.image or args.image,
            "command": [_COMMAND],
            "args": [
                f"--config={operand.CONFIG_DIRECTORY}/{operand.CONFIG_KEY}",
                f"--settings={_SETTINGS_DIRECTORY}/{_SETTINGS_KEY}",
                f"--mode={args.plan.mode}",
                f"--scheduler=$(POD_NAMESPACE)/{args.operand}",
                f"--name={self._object_name}",
                *bound_rules(args.configuration, args.access.rules).arguments(),
            ],
            "env": [
                _from_pod("POD_NAMESPACE", "metadata.namespace"),
                _from_pod("POD_NAME", "metadata.name"),
                _from_pod("POD_IP", "status.podIP"),
            ],
            "ports": [
                {"name": "health", "containerPort": _HEALTH_PORT, "protocol": "TCP"},
                {"name": "metrics", "containerPort": _METRICS_PORT, "protocol": "TCP"},
            ],
            "startupProbe": {**_probe("/healthz"), "periodSeconds": 1, "failureThreshold": 60},
            "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
            "readinessProbe": {**_probe("/readyz"), "periodSeconds": 2, "timeoutSeconds": 2},
            "resources": {"requests": {"cpu": "50m", "memory": "192Mi"}, "limits": {"memory": "2Gi"}},
            "securityContext": operand.CONTAINER_SECURITY,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": mounts,
        }

    def _volumes(self, settings: pulumi.Input[str]) -> list[dict[str, Any]]:
        items = [{"key": operand.CONFIG_KEY, "path": operand.CONFIG_KEY}]
        credentials = self._credentials()
        return [
            {"name": operand.CONFIG_VOLUME, "configMap": {"name": self._args.config_map_name, "items": items}},
            {"name": "settings", "configMap": {"name": settings}},
            operand.temporary_volume(),
            *([credentials] if credentials is not None else []),
        ]

    def _credentials(self) -> dict[str, Any] | None:
        reference = self._args.credentials
        return operand.metric_credentials_volume(
            reference.secret_name if reference else None, self._args.access.audience
        )


def rebalancer_rules(configuration: Configuration) -> list[PolicyRule]:
    """Return a rebalancer's rights in all namespaces: reads of the configuration's plugins, and evictions."""
    plugins = dict.fromkeys(name for profile in configuration.profiles for name in profile.enabled)
    read = [*base_rules(), *(rule for name in plugins for rule in plugin_rules(name))]
    return [*dict.fromkeys(_only_reading(read)), *_RULES]


def evictions_policy(namespace: str, account: str, scheduler_names: Iterable[str]) -> dict[str, Any]:
    """Return the spec of the policy for a rebalancer's evictions: only of pods that name one of its profiles.

    An Eviction does not show its pod. So the pods of its namespace are the policy's parameters: the API server judges
    with each of them, from the copy of all pods that its Node authorizer keeps, and only the one of that name counts.

    Args:
        namespace, account: the rebalancer's ServiceAccount.
        scheduler_names: of the profiles.
    """
    user = f"system:serviceaccount:{namespace}:{account}"
    names = sorted(scheduler_names)
    return {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "Pod"},
        "matchConstraints": constraints("", ["pods/eviction"], ["CREATE"]),
        "matchConditions": [{"name": "by-the-rebalancer", "expression": f"request.userInfo.username == {cel(user)}"}],
        "validations": [
            {
                "expression": f"params.metadata.name != request.name || params.spec.schedulerName in {cel(names)}",
                "message": f"the rebalancer evicts only pods whose spec.schedulerName is {' or '.join(names)}",
                "reason": "Forbidden",
            }
        ],
    }


def _only_reading(rules: Iterable[PolicyRule]) -> Iterable[PolicyRule]:
    for rule in rules:
        verbs = tuple(verb for verb in rule.verbs if verb in _READING)
        if verbs:
            yield PolicyRule(rule.api_groups, rule.resources, verbs, rule.resource_names, rule.non_resource_urls)


def _rules_of_namespace(name: str, scheduler: str) -> list[dict[str, Any]]:
    return [
        *operand.lease_rules(name),
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get", "patch"]},
        # RBAC cannot restrict create by name: the authorizer does not know the name yet.
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": [scheduler], "verbs": ["get"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [scheduler],
            "verbs": ["get"],
        },
        {"apiGroups": ["operator.openshift.io"], "resources": ["secondaryschedulers"], "verbs": ["list"]},
    ]


def _from_pod(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": _HEALTH_PORT, "scheme": "HTTP"}}
