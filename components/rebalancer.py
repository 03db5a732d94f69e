"""A rebalancer beside the scheduler, with rights of its own: it may evict pods, and the scheduler may not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand
from scheduler.catalog import rebalancer_name, rebalancer_rules

from ._inputs import joined
from .kube_object import (
    child,
    cluster_role_binding,
    in_kubernetes_spelling,
    name_of,
    rollout_timeouts,
    service_monitor,
    unawaited_service,
)
from .labels import COMPONENT
from .namespace import cluster_scoped_name
from .operand_args import ReaderArgs
from .settings import RebalancerPlan


@dataclass(frozen=True, kw_only=True)
class RebalancerArgs(ReaderArgs):
    """Its admission policies let the API server refuse evictions of other schedulers' pods. Attributes:
    plan: mode, and what may be moved.
    image: if the plan names none.
    """

    plan: RebalancerPlan
    image: pulumi.Input[str]


class Rebalancer(pulumi.ComponentResource):
    """Deployment, ServiceAccount, rights, settings, NetworkPolicy and Service; done when it has listed the cluster."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: RebalancerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:Rebalancer", name, None, opts)
        self._prefix, self._args = name, args
        self._object_name = rebalancer_name(args.operand)
        self._labels = {operand.LABEL_APP: self._object_name, COMPONENT: "rebalancer"}
        metadata = self._metadata()
        account = k8s.core.v1.ServiceAccount(f"{name}-serviceaccount", metadata=metadata, opts=child(self))
        settings = k8s.core.v1.ConfigMap(
            f"{name}-configmap",
            metadata={**metadata, "name": operand.settings_map_name(args.operand)},
            data={operand.REBALANCER_SETTINGS_KEY: operand.settings_text(args.plan.settings)},
            opts=child(self),
        )
        self._scraped()
        before: list[pulumi.Resource] = [account, *self._rights()]
        if args.settings.objects.network_policy:
            before.append(self._network_policy())
        if args.settings.objects.admission_policies:
            before += self._eviction_policy()
        deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata,
            spec=in_kubernetes_spelling(self._deployment(name_of(account), name_of(settings))),
            opts=child(
                self,
                depends_on=[*before, *args.needs],
                custom_timeouts=rollout_timeouts(args.settings.ready_seconds),
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
        plugins = (name for profile in args.configuration.profiles for name in profile.enabled)
        rules = [rule.to_dict() for rule in rebalancer_rules(plugins)]
        cluster_role = k8s.rbac.v1.ClusterRole(
            f"{self._prefix}-clusterrole",
            metadata={"name": everywhere, "labels": self._labels},
            rules=in_kubernetes_spelling(rules),
            opts=child(self),
        )
        role = k8s.rbac.v1.Role(
            f"{self._prefix}-role",
            metadata=self._metadata(),
            rules=in_kubernetes_spelling(operand.rebalancer_namespace_rules(args.operand)),
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

    def _scraped(self) -> None:
        """The Service of its metrics and, where it is asked for, the ServiceMonitor."""
        args = self._args
        # Waiting for endpoints would hold up an update whose pod does not start.
        spec = operand.rebalancer_service_spec(args.operand)
        unawaited_service(f"{self._prefix}-service", self._metadata(), spec, child(self))
        objects = args.settings.objects
        # Alerts are about what is scraped, and need the same CRDs.
        if not objects.scraped(openshift=objects.prometheus_rule or args.openshift):
            return
        monitor = pulumi.Output.from_input(args.namespace).apply(
            lambda namespace: operand.rebalancer_monitor_spec(args.operand, namespace)
        )
        service_monitor(f"{self._prefix}-servicemonitor", self._metadata(), monitor, child(self))

    def _cluster_binding(
        self, part: str, name: pulumi.Input[str], role: pulumi.Input[str], subjects: list[dict[str, Any]]
    ) -> pulumi.Resource:
        metadata = {"name": name, "labels": self._labels}
        return cluster_role_binding(f"{self._prefix}-{part}", metadata, role, subjects, child(self))

    def _network_policy(self) -> pulumi.Resource:
        args = self._args
        egress = {*operand.source_ports(args.configuration), *args.settings.egress_ports}
        spec = operand.network_policy_spec(
            operand.rebalancer_selector(args.operand),
            [operand.HEALTH_PORT, operand.METRICS_PORT],
            egress,
            args.settings.scrape_namespaces,
        )
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
            lambda namespace: operand.evictions_policy(namespace, self._object_name, names)
        )
        policy = k8s.admissionregistration.v1.ValidatingAdmissionPolicy(
            f"{self._prefix}-evictions",
            metadata=metadata,
            spec=in_kubernetes_spelling(spec),
            opts=child(self),
        )
        enforced = {"policyName": name_of(policy), **operand.EVICTION_POLICY_BINDING}
        binding = k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
            f"{self._prefix}-evictions-binding",
            metadata=metadata,
            spec=in_kubernetes_spelling(enforced),
            opts=child(self),
        )
        return [policy, binding]

    def _deployment(self, account: pulumi.Input[str], settings: pulumi.Input[str]) -> dict[str, Any]:
        args = self._args
        return operand.rebalancer_deployment_spec(
            operand.RebalancerOperand(
                operand=args.operand,
                mode=args.plan.mode,
                settings=args.plan.settings,
                image=args.plan.image or args.image,
                config_map=args.config_map_name,
                settings_map=settings,
                service_account=account,
                openshift=args.openshift,
                labels=self._labels,
                rules=args.configuration.bound_rules(args.access.rules),
                metric_secret=args.credentials.secret_name if args.credentials else None,
                metric_audience=args.access.audience,
            )
        )
