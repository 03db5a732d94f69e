"""The scheduler without an operator: Deployment, identity and the objects around them, as explicit resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.kube_object import KubeObject, child
from components.labels import COMPONENT
from components.metric_credentials import SecretKeyReference
from scheduler import operand
from scheduler.catalog import FLOW_SCHEMAS, LOG_VERBOSITY, OPERAND, CredentialRules, flow_schema_name
from scheduler.config import DEFAULT_SCHEDULER_NAME, flavour_of

_RBAC = "rbac.authorization.k8s.io/v1"
_LABELS = {operand.LABEL_APP: OPERAND, COMPONENT: "scheduler"}


@dataclass(frozen=True)
class DirectSchedulerArgs:
    """Attributes:
    namespace: where the scheduler runs.
    image, flavour: the scheduler's image, and its flavour where the name does not show it.
    config_map_name: the ConfigMap with its configuration; the name changes with the content.
    configuration_hash: hash of that configuration.
    scheduler_names: of the profiles.
    log_level: the scheduler's verbosity: Normal, Debug, Trace or TraceAll.
    metric_credentials: Secret with the credentials for the metric source, if any.
    credential_rules: what the scheduler may do with credentials for it.
    metric_audience: audience of a token of the ServiceAccount that is the credential instead of a Secret.
    replicas: number of schedulers; one leads, the others wait for the Lease.
    openshift: whether the cluster is OpenShift, which picks the numeric user and issues the serving certificate.
    priority_class_name: priority of its pods.
    network_policy, flow_schemas, service_monitor: which of these optional objects to create.
    egress_ports: TCP ports that the scheduler needs beside those of DNS and of API servers.
    resources: requests and limits of its container; None for the default.
    needs: what must exist before the scheduler starts; above all the ClusterRoles and its bindings to them.
    ready_seconds: how long a rollout may take before the update fails.
    """

    namespace: pulumi.Input[str]
    image: str
    config_map_name: pulumi.Input[str]
    configuration_hash: str
    flavour: str = ""
    scheduler_names: Sequence[str] = ()
    log_level: str = "Normal"
    metric_credentials: SecretKeyReference | None = None
    credential_rules: CredentialRules = field(default_factory=CredentialRules)
    metric_audience: str = ""
    replicas: int = 1
    openshift: bool = False
    priority_class_name: pulumi.Input[str] = ""
    network_policy: bool = True
    flow_schemas: bool = True
    service_monitor: bool = False
    egress_ports: Sequence[int] = ()
    resources: Mapping[str, Any] | None = None
    needs: Sequence[pulumi.Resource] = ()
    ready_seconds: int = 180


class DirectScheduler(pulumi.ComponentResource):
    """The scheduler; done when every replica runs this configuration and is ready.

    If a new configuration does not become ready, the old pods keep running: the Deployment removes none before its
    replacement is ready, and the old ConfigMap is deleted only after that.
    """

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    ready_replicas: pulumi.Output[int]

    def __init__(self, name: str, args: DirectSchedulerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:DirectScheduler", name, None, opts)
        self._prefix = name
        self._args = args
        self._namespace = pulumi.Output.from_input(args.namespace)
        account = self._object("ServiceAccount", "v1", OPERAND)
        service = self._object(
            "Service",
            "v1",
            operand.metrics_service_name(OPERAND),
            annotations={
                # Waiting for endpoints would deadlock: the Deployment waits for this Service's serving certificate.
                "pulumi.com/skipAwait": "true",
                **(operand.metrics_service_annotations(OPERAND) if args.openshift else {}),
            },
            spec=operand.metrics_service_spec(OPERAND),
        )
        first = [account, service, *self._lease_role_and_binding(), *self._optional_objects()]
        deployment = self._object(
            "Deployment",
            "apps/v1",
            OPERAND,
            depends_on=[*first, *args.needs],
            timeout=f"{args.ready_seconds}s",
            spec=self._deployment_spec(),
        )
        self.name = deployment.object_name
        self.namespace = deployment.metadata.apply(lambda metadata: str(metadata["namespace"]))
        self.ready_replicas = deployment.status.apply(lambda status: int((status or {}).get("readyReplicas", 0)))
        self.register_outputs({"name": self.name, "namespace": self.namespace, "readyReplicas": self.ready_replicas})

    def _lease_role_and_binding(self) -> list[KubeObject]:
        subjects = [self._namespace.apply(lambda namespace: operand.account(OPERAND, namespace))]
        lease = operand.lease_role_name(OPERAND)
        role = self._object("Role", _RBAC, lease, rules=operand.lease_rules(OPERAND))
        binding = self._object("RoleBinding", _RBAC, lease, roleRef=operand.role_ref(lease), subjects=subjects)
        return [role, binding]

    def _optional_objects(self) -> list[KubeObject]:
        """The optional objects that the Args ask for."""
        args, objects = self._args, []
        if args.replicas > 1:
            budget = operand.disruption_budget_spec(OPERAND)
            objects.append(self._object("PodDisruptionBudget", "policy/v1", OPERAND, spec=budget))
        if args.network_policy:
            policy = operand.scheduler_network_policy_spec(OPERAND, args.egress_ports)
            objects.append(self._object("NetworkPolicy", "networking.k8s.io/v1", OPERAND, spec=policy))
        if args.flow_schemas:
            objects += [
                self._cluster_object(
                    "FlowSchema",
                    "flowcontrol.apiserver.k8s.io/v1",
                    purpose,
                    lambda namespace, purpose=purpose: flow_schema_name(purpose, namespace),  # type: ignore[misc]
                    spec=self._namespace.apply(
                        lambda namespace, purpose=purpose: operand.flow_schema_spec(purpose, OPERAND, namespace)  # type: ignore[misc]
                    ),
                )
                for purpose in FLOW_SCHEMAS
            ]
        if args.service_monitor:
            monitor = self._namespace.apply(
                lambda namespace: operand.service_monitor_spec(OPERAND, namespace, openshift=args.openshift)
            )
            objects.append(self._object("ServiceMonitor", "monitoring.coreos.com/v1", OPERAND, spec=monitor))
        return objects

    def _deployment_spec(self) -> pulumi.Output[dict[str, Any]]:
        args = self._args
        flavour = flavour_of(args.image, args.flavour)
        credentials = args.metric_credentials

        def rendered(values: dict[str, Any]) -> dict[str, Any]:
            return operand.deployment_spec(
                operand.Operand(
                    name=OPERAND,
                    namespace=values["namespace"],
                    image=args.image,
                    command=flavour.command,
                    config_map=values["config_map"],
                    openshift=args.openshift,
                    labels=_LABELS,
                    annotations={operand.ANNOTATION_CONFIGURATION_HASH: args.configuration_hash},
                    replicas=args.replicas,
                    resources=dict(args.resources) if args.resources is not None else None,
                    arguments=self._arguments(),
                    env=operand.environment_for(flavour, openshift=args.openshift),
                    verbosity=LOG_VERBOSITY[args.log_level],
                    serving_cert_secret=operand.serving_cert_secret_name(OPERAND) if args.openshift else None,
                    metric_secret=values["metric_secret"],
                    metric_audience=args.metric_audience,
                    priority_class_name=values["priority_class"],
                )
            )

        return pulumi.Output.all(
            namespace=args.namespace,
            config_map=args.config_map_name,
            metric_secret=credentials.secret_name if credentials is not None else None,
            priority_class=args.priority_class_name,
        ).apply(rendered)

    def _arguments(self) -> list[str]:
        if not flavour_of(self._args.image, self._args.flavour).is_ours:
            # Upstream's binary does not have these flags.
            return []
        named_default = DEFAULT_SCHEDULER_NAME in self._args.scheduler_names
        return [
            *(["--allow-default-scheduler-name"] if named_default else []),
            *self._args.credential_rules.arguments(),
        ]

    def _object(
        self,
        kind: str,
        api_version: str,
        object_name: str,
        *,
        depends_on: Sequence[pulumi.Resource] = (),
        annotations: dict[str, str] | None = None,
        timeout: str | None = None,
        **content: Any,
    ) -> KubeObject:
        metadata: dict[str, Any] = {"name": object_name, "namespace": self._args.namespace, "labels": _LABELS}
        if annotations:
            metadata["annotations"] = annotations
        timeouts = pulumi.CustomTimeouts(create=timeout, update=timeout, delete="3m") if timeout else None
        return KubeObject(
            f"{self._prefix}-{kind.lower()}",
            {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content},
            child(self, depends_on=depends_on, custom_timeouts=timeouts),
        )

    def _cluster_object(
        self, kind: str, api_version: str, suffix: str, object_name: Callable[[str], str], **content: Any
    ) -> KubeObject:
        metadata = {"name": self._namespace.apply(object_name), "labels": _LABELS}
        return KubeObject(
            f"{self._prefix}-{kind.lower()}-{suffix}",
            {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content},
            child(self),
        )
