"""The scheduler without an operator: Deployment, identity and the objects around them, as explicit resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand
from scheduler.catalog import FLOW_SCHEMAS, LOG_VERBOSITY, OPERAND, flow_schema_name
from scheduler.config import DEFAULT_SCHEDULER_NAME

from ._alert_rules import health_of_deployment
from ._inputs import flavour_of_input
from .kube_object import (
    child,
    in_kubernetes_spelling,
    name_of,
    namespace_of,
    ready_replicas_of,
    rollout_timeouts,
    service_monitor,
)
from .labels import COMPONENT
from .operand_args import OperandArgs

_LABELS = {operand.LABEL_APP: OPERAND, COMPONENT: "scheduler"}


@dataclass(frozen=True)
class DirectSchedulerArgs(OperandArgs):
    """Attributes:
    openshift: whether the cluster is OpenShift, which picks the numeric user and issues the serving certificate.
    source_ports: TCP ports of the metric sources in its configuration.
    """

    openshift: bool = False
    source_ports: Sequence[int] = ()


class DirectScheduler(pulumi.ComponentResource):
    """The scheduler; done when every replica runs this configuration and is ready.

    If a new configuration does not become ready, the old pods keep running: the Deployment removes none before its
    replacement is ready, and the old ConfigMap is deleted only after that.
    """

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    ready_replicas: pulumi.Output[int]
    health: pulumi.Output[dict[str, Any]]

    def __init__(self, name: str, args: DirectSchedulerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:DirectScheduler", name, None, opts)
        self._prefix = name
        self._args = args
        self._namespace = pulumi.Output.from_input(args.namespace)
        account = k8s.core.v1.ServiceAccount(f"{name}-serviceaccount", metadata=self._metadata(), opts=child(self))
        first = [account, self._service(), *self._lease_role_and_binding(), *self._optional_objects()]
        deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=self._metadata(),
            spec=in_kubernetes_spelling(self._deployment_spec()),
            opts=child(
                self,
                depends_on=[*first, *args.needs],
                custom_timeouts=rollout_timeouts(args.settings.ready_seconds),
            ),
        )
        self.name = name_of(deployment)
        self.namespace = namespace_of(deployment)
        self.ready_replicas = ready_replicas_of(deployment)
        self.health = deployment.status.apply(health_of_deployment)
        self.register_outputs({"name": self.name, "namespace": self.namespace, "readyReplicas": self.ready_replicas})

    def _service(self) -> pulumi.Resource:
        """The Service of the metrics; on OpenShift it has the serving certificate issued."""
        annotations = {
            # Waiting for endpoints would deadlock: the Deployment waits for this Service's serving certificate.
            "pulumi.com/skipAwait": "true",
            **(operand.metrics_service_annotations(OPERAND) if self._args.openshift else {}),
        }
        return k8s.core.v1.Service(
            f"{self._prefix}-service",
            metadata={**self._metadata(operand.metrics_service_name(OPERAND)), "annotations": annotations},
            spec=in_kubernetes_spelling(operand.metrics_service_spec(OPERAND)),
            opts=child(self),
        )

    def _lease_role_and_binding(self) -> list[pulumi.Resource]:
        subjects = [self._namespace.apply(lambda namespace: operand.account(OPERAND, namespace))]
        lease = operand.lease_role_name(OPERAND)
        role = k8s.rbac.v1.Role(
            f"{self._prefix}-role",
            metadata=self._metadata(lease),
            rules=in_kubernetes_spelling(operand.lease_rules(OPERAND)),
            opts=child(self),
        )
        binding = k8s.rbac.v1.RoleBinding(
            f"{self._prefix}-rolebinding",
            metadata=self._metadata(lease),
            role_ref=in_kubernetes_spelling(operand.role_ref(lease)),
            subjects=in_kubernetes_spelling(subjects),
            opts=child(self),
        )
        return [role, binding]

    def _optional_objects(self) -> list[pulumi.Resource]:
        """The optional objects that the Args ask for."""
        args, settings = self._args, self._args.settings
        objects: list[pulumi.Resource] = []
        if settings.replicas > 1:
            objects.append(
                k8s.policy.v1.PodDisruptionBudget(
                    f"{self._prefix}-poddisruptionbudget",
                    metadata=self._metadata(),
                    spec=in_kubernetes_spelling(operand.disruption_budget_spec(OPERAND)),
                    opts=child(self),
                )
            )
        if settings.objects.network_policy:
            egress = [*settings.egress_ports, *args.source_ports]
            network = operand.scheduler_network_policy_spec(OPERAND, egress, settings.scrape_namespaces)
            objects.append(
                k8s.networking.v1.NetworkPolicy(
                    f"{self._prefix}-networkpolicy",
                    metadata=self._metadata(),
                    spec=in_kubernetes_spelling(network),
                    opts=child(self),
                )
            )
        if settings.objects.flow_schemas:
            objects += [self._flow_schema(purpose) for purpose in FLOW_SCHEMAS]
        if settings.objects.scraped(openshift=args.openshift):
            objects.append(self._service_monitor())
        return objects

    def _flow_schema(self, purpose: str) -> pulumi.Resource:
        return k8s.flowcontrol.v1.FlowSchema(
            f"{self._prefix}-flowschema-{purpose}",
            metadata={
                "name": self._namespace.apply(lambda namespace: flow_schema_name(purpose, namespace)),
                "labels": _LABELS,
            },
            spec=in_kubernetes_spelling(
                self._namespace.apply(lambda namespace: operand.flow_schema_spec(purpose, OPERAND, namespace))
            ),
            opts=child(self),
        )

    def _service_monitor(self) -> pulumi.Resource:
        openshift = self._args.openshift
        spec = self._namespace.apply(
            lambda namespace: operand.service_monitor_spec(OPERAND, namespace, openshift=openshift)
        )
        return service_monitor(f"{self._prefix}-servicemonitor", self._metadata(), spec, child(self))

    def _metadata(self, object_name: str = OPERAND) -> k8s.meta.v1.ObjectMetaArgsDict:
        return {"name": object_name, "namespace": self._args.namespace, "labels": _LABELS}

    def _deployment_spec(self) -> pulumi.Output[dict[str, Any]]:
        args = self._args
        flavour = flavour_of_input(args.image, args.flavour, self._prefix)
        credentials = args.metric_credentials

        def rendered(values: dict[str, Any]) -> dict[str, Any]:
            return operand.deployment_spec(
                operand.Operand(
                    name=OPERAND,
                    namespace=values["namespace"],
                    image=values["image"],
                    command=flavour.command,
                    config_map=values["config_map"],
                    openshift=args.openshift,
                    labels=_LABELS,
                    annotations={operand.ANNOTATION_CONFIGURATION_HASH: args.configuration_hash},
                    replicas=args.settings.replicas,
                    resources=dict(args.resources) if args.resources is not None else None,
                    arguments=self._arguments(),
                    env=[*operand.environment_for(flavour, openshift=args.openshift), *map(dict, args.env)],
                    verbosity=LOG_VERBOSITY[args.settings.log_level],
                    serving_cert_secret=operand.serving_cert_secret_name(OPERAND) if args.openshift else None,
                    metric_secret=values["metric_secret"],
                    metric_audience=args.metric_audience,
                    priority_class_name=values["priority_class"],
                )
            )

        return pulumi.Output.all(
            image=args.image,
            namespace=args.namespace,
            config_map=args.config_map_name,
            metric_secret=credentials.secret_name if credentials is not None else None,
            priority_class=args.priority_class_name,
        ).apply(rendered)

    def _arguments(self) -> list[str]:
        if not flavour_of_input(self._args.image, self._args.flavour, self._prefix).is_ours:
            # Upstream's binary does not have these flags.
            return []
        named_default = DEFAULT_SCHEDULER_NAME in self._args.scheduler_names
        return [
            *(["--allow-default-scheduler-name"] if named_default else []),
            *self._args.credential_rules.arguments(),
        ]
