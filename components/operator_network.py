"""The operator's NetworkPolicy, in every mode that installs our operator: OLM takes none from a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.kube_object import KubeObject, child
from components.labels import COMPONENT
from components.operator_install import HEALTH_PORT, METRICS_PORT, OPERATOR_NAME
from scheduler import operand


@dataclass(frozen=True)
class OperatorNetworkArgs:
    """Attributes:
    namespace: where the operator runs.
    egress_ports: TCP ports that it may reach beside those of DNS and of API servers.
    needs: what must exist before.
    """

    namespace: pulumi.Input[str]
    egress_ports: Sequence[int] = ()
    needs: Sequence[pulumi.Resource] = ()


class OperatorNetwork(pulumi.ComponentResource):
    """The NetworkPolicy for the operator's pods."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: OperatorNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:OperatorNetwork", name, None, opts)
        labels = {COMPONENT: "operator"}
        policy = KubeObject(
            f"{name}-networkpolicy",
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": OPERATOR_NAME, "namespace": args.namespace, "labels": labels},
                "spec": operand.network_policy_spec(
                    {"name": OPERATOR_NAME}, [HEALTH_PORT, METRICS_PORT], args.egress_ports
                ),
            },
            child(self, depends_on=args.needs),
        )
        self.name = policy.object_name
        self.register_outputs({"name": self.name})
