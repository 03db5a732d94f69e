"""The Grafana dashboard as a ConfigMap, which the sidecar of Grafana's Helm chart loads by its label."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from ._dashboard import dashboard_text
from .kube_object import child, name_of
from .operand_args import BesideArgs

SIDECAR_LABEL = {"grafana_dashboard": "1"}


@dataclass(frozen=True, kw_only=True)
class SchedulerDashboardArgs(BesideArgs):
    """The sidecar must watch the namespace."""


class SchedulerDashboard(pulumi.ComponentResource):
    """A ConfigMap with the dashboard. It is the same for every installation: its variables choose one."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: SchedulerDashboardArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SchedulerDashboard", name, None, opts)
        config_map = k8s.core.v1.ConfigMap(
            f"{name}-configmap",
            metadata={"name": f"{args.operand}-dashboard", "namespace": args.namespace, "labels": SIDECAR_LABEL},
            data={"secondary-scheduler.json": dashboard_text()},
            opts=child(self),
        )
        self.name = name_of(config_map)
        self.register_outputs({"name": self.name})
