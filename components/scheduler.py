"""The scheduler in any install mode: as a SecondaryScheduler for an operator, or created by this program itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pulumi

from scheduler.catalog import OPERAND

from .alerts import SchedulerAlerts, SchedulerAlertsArgs
from .dashboard import SchedulerDashboard, SchedulerDashboardArgs
from .direct_scheduler import DirectScheduler, DirectSchedulerArgs
from .installation import Installation
from .operand_rollout import OperandRollout, OperandRolloutArgs
from .operator_monitor import OperatorMonitor, OperatorMonitorArgs
from .parts import Parts
from .priority_class import SchedulerPriority, SchedulerPriorityArgs
from .secondary_scheduler import SCHEDULER_NAME, SecondaryScheduler, SecondarySchedulerArgs


@dataclass(frozen=True)
class SchedulerArgs(SecondarySchedulerArgs, DirectSchedulerArgs):
    """Attributes:
    existing_priority_class: a PriorityClass to use instead of creating one.
    operand: name of the scheduler.
    runbooks: address of the page with the runbooks, for the alerts; "" if it is not published.
    rebalanced: there is a rebalancer, whoever runs it.
    """

    existing_priority_class: pulumi.Input[str] | None = None
    operand: str = OPERAND
    runbooks: str = ""
    rebalanced: bool = False


@dataclass(frozen=True)
class RunningScheduler:
    """The resource that is done when the scheduler is available, and the PriorityClass of its pods, if any."""

    resource: SecondaryScheduler | DirectScheduler | OperandRollout
    priority_class_name: pulumi.Output[str] | None = None


def run_scheduler(installation: Installation, args: SchedulerArgs, parts: Parts) -> RunningScheduler:
    """Register the scheduler of an installation."""
    priority: pulumi.Output[str] | None = None
    needs: list[pulumi.Resource] = [*installation.needs, *args.needs]
    if args.settings.objects.priority_class and not installation.upstream:
        if args.existing_priority_class is None:
            priority_args = SchedulerPriorityArgs(SCHEDULER_NAME)
            scheduler_priority = SchedulerPriority(parts.name("priority"), priority_args, parts.options("priority"))
            priority, needs = scheduler_priority.name, [*needs, scheduler_priority]
        else:
            priority = pulumi.Output.from_input(args.existing_priority_class)
    needs += _monitoring(installation, args, parts)
    args = replace(
        args,
        namespace=installation.namespace_of_mode,
        priority_class_name=priority if priority is not None else "",
        needs=needs,
        openshift=installation.openshift,
        upstream=installation.upstream,
        crd_changes=installation.crd_changes,
    )
    name, options = parts.name("scheduler"), parts.options("scheduler")
    if installation.mode == "direct":
        return RunningScheduler(DirectScheduler(name, args, options), priority)
    scheduler = SecondaryScheduler(name, args, options)
    if not installation.upstream:
        return RunningScheduler(scheduler, priority)
    rollout_args = OperandRolloutArgs(
        scheduler,
        args.namespace,
        args.image,
        args.config_map_name,
        installation.adopting,
        args.settings.ready_seconds,
    )
    return RunningScheduler(OperandRollout(parts.name("rollout"), rollout_args, parts.options("rollout")))


def _monitoring(installation: Installation, args: SchedulerArgs, parts: Parts) -> list[pulumi.Resource]:
    """Alerts and dashboard. Alerts about the operator go with the one installation that brings ours and scrapes it."""
    resources: list[pulumi.Resource] = []
    objects, namespace = args.settings.objects, installation.namespace
    context: dict[str, Any] = {"namespace": namespace, "operand": args.operand, "settings": args.settings}
    if objects.prometheus_rule:
        operator = installation.brings_our_operator and objects.service_monitor is not False
        if operator:
            monitor = OperatorMonitorArgs(namespace, installation.needs)
            part = "operator-monitor"
            resources.append(OperatorMonitor(parts.name(part), monitor, parts.options(part)))
        rebalancer = args.rebalanced and objects.service_monitor is not False
        relabelled = not installation.upstream or installation.mode == "direct"
        alerts = SchedulerAlertsArgs(
            **context, relabelled=relabelled, operator=operator, runbooks=args.runbooks, rebalancer=rebalancer
        )
        resources.append(SchedulerAlerts(parts.name("alerts"), alerts, parts.options("alerts")))
    if objects.grafana_dashboard:
        dashboard = SchedulerDashboardArgs(**context)
        resources.append(SchedulerDashboard(parts.name("dashboard"), dashboard, parts.options("dashboard")))
    return resources
