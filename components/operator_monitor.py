"""Scraping of our operator through the Prometheus operator: nobody else would make its Service for metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from scheduler import operand

from ._alert_rules import OPERATOR_JOB
from .kube_object import child, name_of, service_monitor, unawaited_service
from .labels import COMPONENT
from .operator_install import METRICS_PORT, OPERATOR_NAME

_SELECTOR = {"name": OPERATOR_NAME}
_LABELS = {**_SELECTOR, COMPONENT: "operator"}
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
        # An operator that is being replaced must not hold up the update.
        service = unawaited_service(
            f"{name}-service",
            {"name": OPERATOR_JOB, "namespace": args.namespace, "labels": _LABELS},
            operand.scraped_service_spec(_SELECTOR, _PORT, METRICS_PORT),
            child(self, depends_on=args.needs),
        )
        service_monitor(
            f"{name}-servicemonitor",
            {"name": OPERATOR_NAME, "namespace": args.namespace, "labels": _LABELS},
            pulumi.Output.from_input(args.namespace).apply(_monitor_spec),
            child(self, depends_on=args.needs),
        )
        self.name = name_of(service)
        self.register_outputs({"name": self.name})


def _monitor_spec(namespace: str) -> dict[str, Any]:
    return operand.scraping_monitor_spec(_SELECTOR, namespace, operand.scrape_endpoint(_PORT))
