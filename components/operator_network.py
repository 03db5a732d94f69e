"""The operator's NetworkPolicy, in every mode that installs our operator: OLM takes none from a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand
from scheduler.config import SchedulerSettings

from .kube_object import child, in_kubernetes_spelling, name_of
from .labels import COMPONENT
from .operator_install import HEALTH_PORT, METRICS_PORT, OPERATOR_NAME


@dataclass(frozen=True)
class OperatorNetworkArgs:
    """Attributes:
    namespace: where the operator runs.
    settings: which TCP ports it may reach beside those of DNS and of API servers, and whose pods may reach it.
    needs: what must exist before.
    """

    namespace: pulumi.Input[str]
    settings: SchedulerSettings = field(default_factory=SchedulerSettings)
    needs: Sequence[pulumi.Resource] = ()


class OperatorNetwork(pulumi.ComponentResource):
    """The NetworkPolicy for the operator's pods."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: OperatorNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:OperatorNetwork", name, None, opts)
        labels = {COMPONENT: "operator"}
        settings, ports = args.settings, [HEALTH_PORT, METRICS_PORT]
        spec = operand.network_policy_spec(
            {"name": OPERATOR_NAME}, ports, settings.egress_ports, settings.scrape_namespaces
        )
        policy = k8s.networking.v1.NetworkPolicy(
            f"{name}-networkpolicy",
            metadata={"name": OPERATOR_NAME, "namespace": args.namespace, "labels": labels},
            spec=in_kubernetes_spelling(spec),
            opts=child(self, depends_on=args.needs),
        )
        self.name = name_of(policy)
        self.register_outputs({"name": self.name})
