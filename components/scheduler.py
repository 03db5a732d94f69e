"""The scheduler in any install mode: as a SecondaryScheduler for an operator, or created by this program itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from scheduler.catalog import CredentialRules, operand_name

from .alerts import SchedulerAlerts, SchedulerAlertsArgs
from .dashboard import SchedulerDashboard, SchedulerDashboardArgs
from .direct_scheduler import DirectScheduler, DirectSchedulerArgs
from .installation import Installation
from .metric_credentials import SecretKeyReference
from .operand_rollout import OperandRollout, OperandRolloutArgs
from .operator_monitor import OperatorMonitor, OperatorMonitorArgs
from .parts import Parts
from .priority_class import SchedulerPriority, SchedulerPriorityArgs
from .secondary_scheduler import RESOURCE_NAME, SCHEDULER_NAME, SecondaryScheduler, SecondarySchedulerArgs
from .settings import RebalancerPlan


@dataclass(frozen=True)
class SchedulerArgs:
    """Attributes:
    image, flavour: the scheduler's image, and its flavour where the name does not show it.
    extra_plugins: plugins that only a custom image has, with their extension points by name.
    config_map_name: the ConfigMap with its configuration.
    configuration_hash: hash of that configuration.
    scheduler_names: of the profiles.
    log_level: the scheduler's verbosity: Normal, Debug, Trace or TraceAll.
    metric_credentials: Secret with the credentials for the metric source, if any.
    credential_rules: what the scheduler may do with credentials for it.
    metric_audience: audience of a token of the ServiceAccount that is the credential instead of a Secret.
    replicas: number of schedulers; with an operator at most as many as there are nodes for them.
    allow_default_scheduler_name: allow a profile named default-scheduler.
    allow_token_in_config_map: allow a configuration that holds the metric source's token.
    priority_class, network_policy, flow_schemas, service_monitor, prometheus_rule, grafana_dashboard: which optional
        objects to create. None for service_monitor: an operator creates it where the cluster has the kind, and this
        program does on OpenShift.
    runbooks: address of the page with the runbooks, for the alerts; "" if it is not published.
    priority_class_name: an existing PriorityClass to use instead of creating one.
    egress_ports: TCP ports of the stack's settings that the scheduler needs beside those of its configuration.
    scrape_namespaces: those whose pods may reach the scheduler; without any, all sources.
    source_ports: TCP ports of the metric sources in its configuration; an operator finds them itself.
    resources: requests and limits of the scheduler's container; None for the default.
    env: environment variables of the scheduler's container.
    protect: refuse to delete the SecondaryScheduler.
    ready_seconds: how long the scheduler may take to become ready before the update fails.
    needs: what must exist before, in addition to the installation.
    resource_name: name of the SecondaryScheduler.
    rebalance: the rebalancer that the operator runs beside the scheduler; None for none.
    admission_policies: whether the operator limits what that may evict by a policy.
    rebalanced: there is a rebalancer, whoever runs it.
    """

    image: pulumi.Input[str]
    config_map_name: pulumi.Input[str]
    configuration_hash: str
    scheduler_names: Sequence[str]
    log_level: str = "Normal"
    metric_credentials: SecretKeyReference | None = None
    credential_rules: CredentialRules = field(default_factory=CredentialRules)
    metric_audience: str = ""
    flavour: str = ""
    extra_plugins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    replicas: int = 1
    allow_default_scheduler_name: bool = False
    allow_token_in_config_map: bool = False
    priority_class: bool = True
    priority_class_name: pulumi.Input[str] | None = None
    network_policy: bool = True
    flow_schemas: bool = True
    service_monitor: bool | None = None
    prometheus_rule: bool = False
    grafana_dashboard: bool = False
    runbooks: str = ""
    egress_ports: Sequence[int] = ()
    scrape_namespaces: Sequence[str] = ()
    source_ports: Sequence[int] = ()
    resources: Mapping[str, Any] | None = None
    env: Sequence[Mapping[str, Any]] = ()
    protect: bool = False
    ready_seconds: int = 180
    needs: Sequence[pulumi.Resource] = ()
    resource_name: str = RESOURCE_NAME
    rebalance: RebalancerPlan | None = None
    admission_policies: bool = True
    rebalanced: bool = False


@dataclass(frozen=True)
class RunningScheduler:
    """The resource that is done when the scheduler is available, and the PriorityClass of its pods, if any."""

    resource: SecondaryScheduler | DirectScheduler | OperandRollout
    priority_class_name: pulumi.Output[str] | None = None


def run_scheduler(installation: Installation, args: SchedulerArgs, parts: Parts) -> RunningScheduler:
    """Register the scheduler of an installation."""
    namespace = installation.namespace_of_mode
    priority: pulumi.Output[str] | None = None
    needs: list[pulumi.Resource] = [*installation.needs, *args.needs]
    if args.priority_class and not installation.upstream:
        if args.priority_class_name is None:
            priority_args = SchedulerPriorityArgs(SCHEDULER_NAME)
            scheduler_priority = SchedulerPriority(parts.name("priority"), priority_args, parts.options("priority"))
            priority, needs = scheduler_priority.name, [*needs, scheduler_priority]
        else:
            priority = pulumi.Output.from_input(args.priority_class_name)
    needs += _monitoring(installation, args, parts)
    if installation.mode == "direct":
        direct = DirectSchedulerArgs(
            namespace,
            args.image,
            args.config_map_name,
            args.configuration_hash,
            flavour=args.flavour,
            scheduler_names=args.scheduler_names,
            log_level=args.log_level,
            metric_credentials=args.metric_credentials,
            credential_rules=args.credential_rules,
            metric_audience=args.metric_audience,
            replicas=args.replicas,
            openshift=installation.openshift,
            priority_class_name=priority if priority is not None else "",
            network_policy=args.network_policy,
            flow_schemas=args.flow_schemas,
            service_monitor=installation.openshift if args.service_monitor is None else args.service_monitor,
            egress_ports=[*args.egress_ports, *args.source_ports],
            scrape_namespaces=args.scrape_namespaces,
            resources=args.resources,
            env=args.env,
            needs=needs,
            ready_seconds=args.ready_seconds,
        )
        return RunningScheduler(DirectScheduler(parts.name("scheduler"), direct, parts.options("scheduler")), priority)
    switches = {"NetworkPolicy": args.network_policy, "FlowSchema": args.flow_schemas}
    switches["ServiceMonitor"] = args.service_monitor is not False
    if args.rebalance is not None:
        switches["ValidatingAdmissionPolicy"] = args.admission_policies
    described = SecondarySchedulerArgs(
        namespace,
        args.image,
        args.config_map_name,
        args.configuration_hash,
        args.log_level,
        args.metric_credentials,
        args.credential_rules,
        args.metric_audience,
        flavour=args.flavour,
        extra_plugins=args.extra_plugins,
        needs=needs,
        protect=args.protect,
        allow_default_scheduler_name=args.allow_default_scheduler_name,
        allow_token_in_config_map=args.allow_token_in_config_map,
        replicas=args.replicas,
        priority_class_name=priority if priority is not None else "",
        without=[kind for kind, wanted in switches.items() if not wanted],
        upstream=installation.upstream,
        egress_ports=args.egress_ports,
        scrape_namespaces=args.scrape_namespaces,
        resources=args.resources,
        env=args.env,
        ready_seconds=args.ready_seconds,
        resource_name=args.resource_name,
        crd_changes=installation.crd_changes,
        rebalance=args.rebalance,
    )
    scheduler = SecondaryScheduler(parts.name("scheduler"), described, parts.options("scheduler"))
    if not installation.upstream:
        return RunningScheduler(scheduler, priority)
    rollout_args = OperandRolloutArgs(
        scheduler, namespace, args.image, args.config_map_name, installation.adopting, args.ready_seconds
    )
    return RunningScheduler(OperandRollout(parts.name("rollout"), rollout_args, parts.options("rollout")))


def _monitoring(installation: Installation, args: SchedulerArgs, parts: Parts) -> list[pulumi.Resource]:
    """Alerts and dashboard. Alerts about the operator go with the one installation that brings ours and scrapes it."""
    resources: list[pulumi.Resource] = []
    namespace, name = installation.namespace, operand_name(args.resource_name)
    if args.prometheus_rule:
        operator = installation.brings_our_operator and args.service_monitor is not False
        if operator:
            monitor = OperatorMonitorArgs(namespace, installation.needs)
            part = "operator-monitor"
            resources.append(OperatorMonitor(parts.name(part), monitor, parts.options(part)))
        rebalancer = args.rebalanced and args.service_monitor is not False
        relabelled = not installation.upstream or installation.mode == "direct"
        alerts = SchedulerAlertsArgs(namespace, name, relabelled, operator, args.runbooks, rebalancer)
        resources.append(SchedulerAlerts(parts.name("alerts"), alerts, parts.options("alerts")))
    if args.grafana_dashboard:
        dashboard = SchedulerDashboardArgs(namespace, name)
        resources.append(SchedulerDashboard(parts.name("dashboard"), dashboard, parts.options("dashboard")))
    return resources
