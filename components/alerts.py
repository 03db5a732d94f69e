"""Alerts about the scheduler through the Prometheus operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from scheduler import operand
from scheduler.catalog import OPERAND

from .kube_object import KubeObject, child, name_of


@dataclass(frozen=True)
class SchedulerAlertsArgs:
    """Attributes:
    namespace: where the scheduler runs.
    """

    namespace: pulumi.Input[str]


class SchedulerAlerts(pulumi.ComponentResource):
    """A PrometheusRule; its CRD must be installed."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: SchedulerAlertsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SchedulerAlerts", name, None, opts)
        rule = KubeObject(
            f"{name}-prometheusrule",
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PrometheusRule",
                "metadata": {"name": OPERAND, "namespace": args.namespace},
                "spec": pulumi.Output.from_input(args.namespace).apply(_spec),
            },
            child(self),
        )
        self.name = name_of(rule)
        self.register_outputs({"name": self.name})


def alert_rules(namespace: str) -> list[dict[str, Any]]:
    """Return the alerting rules about the scheduler of a namespace."""
    job = f'job="{operand.metrics_service_name(OPERAND)}",namespace="{namespace}"'
    return [
        _alert(
            "SecondarySchedulerDown",
            f"absent(up{{{job}}} == 1)",
            "5m",
            "critical",
            "No secondary scheduler is up: pods that request it stay pending.",
        ),
        _alert(
            "SecondarySchedulerLoadDataStale",
            f"max by (source) (secondary_scheduler_load_data_fresh{{{job}}}) == 0",
            "10m",
            "warning",
            "The nodes' load cannot be read: pods are scheduled without it.",
        ),
        _alert(
            "SecondarySchedulerNodesOvercommitted",
            f"max by (resource) (secondary_scheduler_overcommitted_nodes{{{job}}}) > 0",
            "5m",
            "warning",
            "Pods request more than is allocatable on some nodes: another scheduler may use them, too.",
        ),
        _alert(
            "SecondarySchedulerPodsRejectedByKubelet",
            f"max by (reason) (increase(secondary_scheduler_kubelet_rejections_total{{{job}}}[15m])) > 0",
            "0m",
            "warning",
            "Kubelets reject pods of the secondary scheduler for want of room.",
        ),
        _alert(
            "SecondarySchedulerPodsUnschedulable",
            f'max(scheduler_pending_pods{{{job},queue="unschedulable"}}) > 0',
            "30m",
            "warning",
            "Pods that request the secondary scheduler have been unschedulable for half an hour.",
        ),
    ]


def _spec(namespace: str) -> dict[str, Any]:
    return {"groups": [{"name": "secondary-scheduler", "rules": alert_rules(namespace)}]}


def _alert(name: str, expression: str, lasting: str, severity: str, summary: str) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expression,
        "for": lasting,
        "labels": {"severity": severity},
        "annotations": {"summary": summary},
    }
