"""Alerts about scheduler, operator and rebalancer through the Prometheus operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from scheduler import operand
from scheduler.catalog import OPERAND, rebalancer_name

from ._alert_rules import operator_alerts, scheduler_alerts
from ._objective import objective_alert, recording_rules
from ._rebalancer_alerts import rebalancer_alerts
from .kube_object import KubeObject, child, name_of
from .operand_args import BesideArgs


@dataclass(frozen=True, kw_only=True)
class SchedulerAlertsArgs(BesideArgs):
    """The scheduler's name is the label `job` of its metrics. Attributes:
    relabelled: the ServiceMonitor is ours, and sets that label; upstream's leaves it the Service's name.
    operator: alerts about our operator too, and about all instances that it serves; its metrics must be scraped.
    runbooks: address of the published page with the runbooks, `docs/runbooks.md` of this repository; "" if it is not.
    rebalancer: alerts about the scheduler's rebalancer, too; its metrics must be scraped.
    """

    relabelled: bool = True
    operator: bool = False
    runbooks: str = ""
    rebalancer: bool = False


class SchedulerAlerts(pulumi.ComponentResource):
    """A PrometheusRule; its CRD must be installed."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: SchedulerAlertsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SchedulerAlerts", name, None, opts)

        def spec(namespace: str) -> dict[str, Any]:
            rules = alert_rules(
                namespace,
                args.operand,
                relabelled=args.relabelled,
                operator=args.operator,
                rebalancer=args.rebalancer,
                runbooks=args.runbooks,
            )
            objective = recorded(namespace, args.operand, relabelled=args.relabelled)
            return {
                "groups": [
                    {"name": "secondary-scheduler-objective", "rules": objective},
                    {"name": "secondary-scheduler", "rules": rules},
                ]
            }

        rule = KubeObject(
            f"{name}-prometheusrule",
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PrometheusRule",
                "metadata": {"name": args.operand, "namespace": args.namespace},
                "spec": pulumi.Output.from_input(args.namespace).apply(spec),
            },
            child(self),
        )
        self.name = name_of(rule)
        self.register_outputs({"name": self.name})


def recorded(namespace: str, operand_name: str = OPERAND, *, relabelled: bool = True) -> list[dict[str, Any]]:
    """Return the recording rules about the scheduler of a namespace."""
    return [*recording_rules(_job(operand_name, relabelled=relabelled), namespace)]


def _job(operand_name: str, *, relabelled: bool) -> str:
    return operand_name if relabelled else operand.metrics_service_name(operand_name)


def alert_rules(
    namespace: str,
    operand_name: str = OPERAND,
    *,
    relabelled: bool = True,
    operator: bool = False,
    rebalancer: bool = False,
    runbooks: str = "",
) -> list[dict[str, Any]]:
    """Return the alerting rules about the scheduler of a namespace, and about our operator and the scheduler's
    rebalancer there if they are."""
    job = _job(operand_name, relabelled=relabelled)
    alerts = [*scheduler_alerts(job, namespace), objective_alert(job, namespace)]
    if operator:
        alerts += operator_alerts(namespace)
    if rebalancer:
        alerts += rebalancer_alerts(rebalancer_name(operand_name), namespace)
    return [alert.rule(runbooks) for alert in alerts]
