"""Scraping of our operator through the Prometheus operator: nobody else would make its Service for metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand

from ._alert_rules import OPERATOR_JOB
from .kube_object import KubeObject, child, in_kubernetes_spelling, name_of
from .labels import COMPONENT
from .operator_install import METRICS_PORT, OPERATOR_NAME

_LABELS = {"name": OPERATOR_NAME, COMPONENT: "operator"}
_PORT = "metrics"


@dataclass(frozen=True)
class OperatorMonitorArgs:
    """Attributes:
    namespace: where the operator runs.
    needs: what must exist before.
    """

    namespace: pulumi.Input[str]
    needs: Sequence[pulumi.Resource] = ()


class OperatorMonitor(pulumi.ComponentResource):
    """A Service for the operator's metrics and a ServiceMonitor, whose CRD must be installed."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: OperatorMonitorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:OperatorMonitor", name, None, opts)
        service = k8s.core.v1.Service(
            f"{name}-service",
            metadata={
                "name": OPERATOR_JOB,
                "namespace": args.namespace,
                "labels": _LABELS,
                # An operator that is being replaced must not hold up the update.
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec=in_kubernetes_spelling(_service_spec()),
            opts=child(self, depends_on=args.needs),
        )
        KubeObject(
            f"{name}-servicemonitor",
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "ServiceMonitor",
                "metadata": {"name": OPERATOR_NAME, "namespace": args.namespace, "labels": _LABELS},
                "spec": pulumi.Output.from_input(args.namespace).apply(_monitor_spec),
            },
            child(self, depends_on=args.needs),
        )
        self.name = name_of(service)
        self.register_outputs({"name": self.name})


def _service_spec() -> dict[str, Any]:
    port = {"name": _PORT, "port": METRICS_PORT, "targetPort": METRICS_PORT, "protocol": "TCP"}
    return {"type": "ClusterIP", "selector": {"name": OPERATOR_NAME}, "ports": [port]}


def _monitor_spec(namespace: str) -> dict[str, Any]:
    return {
        "namespaceSelector": {"matchNames": [namespace]},
        "selector": {"matchLabels": {"name": OPERATOR_NAME}},
        "endpoints": [operand.scrape_endpoint(_PORT)],
    }
