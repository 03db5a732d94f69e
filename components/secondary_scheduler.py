"""The SecondaryScheduler resource, which tells the operator what to run."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pulumi

from ._alert_rules import health_of
from .crd import SECONDARY_SCHEDULERS
from .kube_object import KubeObject, child, namespace_of
from .operand_args import OperandArgs
from .settings import RebalancerPlan

# Upstream's operator serves only the resource of this name, and names the objects it creates as below.
RESOURCE_NAME = "cluster"
SCHEDULER_NAME = "secondary-scheduler"
_SUCCEEDED: Final = "Succeeded"
_HINTS: Final = {"rebalance": "set rebalance.runBy to Program"}
"""What else helps where the CRD is older than a field, if it is not to do without the setting."""


@dataclass(frozen=True)
class SecondarySchedulerArgs(OperandArgs):
    """Of an update, a canary may take as long as the scheduler itself. Attributes:
    extra_plugins: plugins that only a custom image has, with their extension points by name.
    allow_default_scheduler_name: allow a profile named default-scheduler.
    allow_token_in_config_map: allow a configuration that holds the metric source's token.
    upstream: the operator is upstream's, which has none of our additional fields and reports no conditions.
    resource_name: the resource's name; upstream's operator serves the default only.
    crd_changes: in a preview, whether the update changes which objects the CRD accepts. The API server, which still has
        the old one, then does not check this object.
    rebalance: the rebalancer that the operator runs beside the scheduler; None for none.
    """

    extra_plugins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    allow_default_scheduler_name: bool = False
    allow_token_in_config_map: bool = False
    upstream: bool = False
    resource_name: pulumi.Input[str] = RESOURCE_NAME
    crd_changes: pulumi.Input[bool] = False
    rebalance: RebalancerPlan | None = None


class SecondaryScheduler(pulumi.ComponentResource):
    """The resource; done when the scheduler is available *with the configuration and the image of this stack*, or when
    the operator has rejected them, which fails the update.

    `Available` alone would pass at once on an update: it still holds for the scheduler with the old ones.
    Upstream's operator reports no conditions: `OperandRollout` waits instead.
    """

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    ready_replicas: pulumi.Output[int]
    health: pulumi.Output[dict[str, Any]]
    status: pulumi.Output[dict[str, Any] | None]

    def __init__(self, name: str, args: SecondarySchedulerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SecondaryScheduler", name, None, opts)

        def gate(values: list[Any]) -> Any:
            image, crd_changes = values
            if not crd_changes:
                return json.dumps(_gate(args, image))
            pulumi.log.info("the API server checks it in the update, not in this preview: its CRD changes first", self)
            # The provider has the server check no object of which it does not know everything.
            return pulumi.UNKNOWN

        extensions = {} if args.upstream else _extensions(args)
        spec, seconds = _upstream_spec(args) | extensions, args.settings.ready_seconds
        resource = KubeObject(
            f"{name}-resource",
            {
                "apiVersion": "operator.openshift.io/v1",
                "kind": "SecondaryScheduler",
                "metadata": {
                    "name": args.resource_name,
                    "namespace": args.namespace,
                    "annotations": {"pulumi.com/waitFor": pulumi.Output.all(args.image, args.crd_changes).apply(gate)},
                },
                "spec": spec,
            },
            child(
                self,
                depends_on=args.needs,
                protect=args.settings.protect or None,
                # The default of ten minutes is long for a scheduler that does not become ready. An update is first
                # tried with a canary, which has three minutes of its own.
                custom_timeouts=pulumi.CustomTimeouts(create=f"{seconds}s", update=f"{2 * seconds}s", delete="3m"),
            ),
        )
        self.name = pulumi.Output.from_input(SCHEDULER_NAME)
        self.status = resource.status
        if extensions:
            # What a preview shows is what the API server would make of the object. A value may be secret, and then so
            # would be all that follows from it; names of fields are not.
            kept = pulumi.Output.unsecret(resource.spec.apply(lambda spec: None if spec is None else list(spec)))
            self.status = pulumi.Output.all(resource.status, kept).apply(partial(_unless_pruned, list(extensions)))
        if not args.upstream:
            self.status = self.status.apply(_succeeded)
        self.namespace = namespace_of(resource)
        self.ready_replicas = self.status.apply(lambda status: int((status or {}).get("readyReplicas", 0)))
        self.health = self.status.apply(self._health)
        self.register_outputs(
            {"name": self.name, "namespace": self.namespace, "readyReplicas": self.ready_replicas},
        )

    def _health(self, status: dict[str, Any] | None) -> dict[str, Any]:
        health = health_of(status)
        # A preview has the status of the last update, which this one may change.
        if "replicas" in health and not pulumi.runtime.is_dry_run():
            pulumi.log.warn(f"replicas: {health['replicas']}; add nodes, or lower replicas", self)
        return health


def _gate(args: SecondarySchedulerArgs, image: str) -> list[str]:
    if args.upstream:
        # It only reports that it has written the Deployment, which may have been long ago.
        return ["jsonpath={.status.generations[0].lastGeneration}"]
    rebalancer = (
        [] if args.rebalance is None else [f"jsonpath={{.status.rebalancer.settingsHash}}={args.rebalance.hash}"]
    )
    return [
        "condition=Available",
        # Its message says how far the canary is. It holds as well when the operator has given up: waiting longer would
        # change nothing, as it does not try again within the time. `_succeeded` tells the two apart.
        "condition=Progressing=False",
        f"jsonpath={{.status.lastRollout.configurationHash}}={args.configuration_hash}",
        # A change of the image alone does not affect the above.
        f"jsonpath={{.status.lastRollout.image}}={image}",
        *rebalancer,
    ]


def _succeeded(status: dict[str, Any] | None) -> dict[str, Any] | None:
    """The status, where the rollout succeeded; in an update, an error that names the operator's reason where not."""
    rollout = (status or {}).get("lastRollout") or {}
    degraded = {each["type"]: each for each in (status or {}).get("conditions") or ()}.get("Degraded") or {}
    outcome = rollout.get("outcome", _SUCCEEDED)
    if outcome != _SUCCEEDED:
        problem = f"{outcome}: {rollout.get('message') or 'no reason given'}"
    elif degraded.get("status") == "True":
        problem = f"{degraded.get('reason')}: {degraded.get('message')}"
    else:
        return status
    text = (
        f"SecondaryScheduler is degraded, {problem}. Change the stack's configuration or image; if the cluster was at "
        "fault and is fixed, pulumi up --refresh"
    )
    if pulumi.runtime.is_dry_run():
        # What was so at the end of the last update need not be so any more, and this update may be the cure.
        pulumi.log.warn(text)
        return status
    raise pulumi.RunError(text)


def _unless_pruned(extensions: Sequence[str], resolved: Sequence[Any]) -> Any:
    """The status, where the API server kept these fields of the spec: without one, the scheduler would run, though not
    as asked."""
    status, kept = resolved
    for name in extensions:
        if kept is not None and name not in kept:
            raise pulumi.RunError(
                f"{name}: the cluster's CRD {SECONDARY_SCHEDULERS} has no spec.{name}, so the API server drops it: "
                "install an operator of this version, whose CRD comes with it, or "
                f"{_HINTS.get(name, 'do without the setting that it comes from')}"
            )
    return status


def _upstream_spec(args: SecondarySchedulerArgs) -> dict[str, Any]:
    """The fields that upstream's operator has, too; observedConfig and status are the operator's."""
    settings = args.settings
    spec: dict[str, Any] = {
        "managementState": "Managed",
        "schedulerConfig": args.config_map_name,
        "schedulerImage": args.image,
        "logLevel": settings.log_level,
    }
    if settings.replicas > 1:
        spec["topology"] = {
            "mode": "HighlyAvailable",
            "highlyAvailableTopology": {"maxReplicas": settings.replicas},
        }
    return spec


def _extensions(args: SecondarySchedulerArgs) -> dict[str, Any]:
    """The fields that only our operator has."""
    settings = args.settings
    spec: dict[str, Any] = {}
    if args.flavour:
        spec["flavour"] = args.flavour
    if args.extra_plugins:
        spec["extraPlugins"] = [{"name": name, "points": list(points)} for name, points in args.extra_plugins.items()]
    if args.priority_class_name:
        spec["priorityClassName"] = args.priority_class_name
    lists: dict[str, Collection[Any]] = {
        "egressPorts": settings.egress_ports,
        "scrapeNamespaces": settings.scrape_namespaces,
    }
    spec |= {name: sorted(set(values)) for name, values in lists.items() if values}
    if args.resources is not None:
        spec["resources"] = dict(args.resources)
    if args.env:
        spec["env"] = [dict(variable) for variable in args.env]
    if args.rebalance is not None:
        spec["rebalance"] = args.rebalance.spec
    if without := list(_without(args)):
        spec["without"] = without
    permissions = {
        "allowDefaultSchedulerName": args.allow_default_scheduler_name,
        "allowTokenInConfigMap": args.allow_token_in_config_map,
        "allowInsecureMetricCredentials": args.credential_rules.allow_insecure,
    }
    spec |= {name: True for name, allowed in permissions.items() if allowed}
    if credentials := _credentials(args):
        spec["metricCredentials"] = credentials
    return spec


def _without(args: SecondarySchedulerArgs) -> Iterator[str]:
    """The kinds of optional objects that the operator must not create."""
    objects = args.settings.objects
    if not objects.network_policy:
        yield "NetworkPolicy"
    if not objects.flow_schemas:
        yield "FlowSchema"
    if objects.service_monitor is False:  # by default it creates one where the cluster has the kind
        yield "ServiceMonitor"
    if args.rebalance is not None and not objects.admission_policies:
        yield "ValidatingAdmissionPolicy"


def _credentials(args: SecondarySchedulerArgs) -> dict[str, Any]:
    rules, reference = args.credential_rules, args.metric_credentials
    credentials: dict[str, Any] = {}
    if reference is not None:
        credentials = {"secretName": reference.secret_name, "key": reference.key}
    elif args.metric_audience:
        credentials = {"serviceAccount": {"audience": args.metric_audience}}
    elif rules.service_account_token is not None and rules.address is not None:
        credentials = {"serviceAccount": {}}
    if credentials and rules.address is not None:
        credentials["address"] = rules.address
    return credentials
