"""Waits for the Deployment of upstream's operator, which does not report on it in the SecondaryScheduler."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from ._alert_rules import health_of_deployment
from .kube_object import child, ready_replicas_of
from .secondary_scheduler import SCHEDULER_NAME, SecondaryScheduler


@dataclass(frozen=True)
class OperandRolloutArgs:
    """Attributes:
    scheduler: the SecondaryScheduler that the operator acts on.
    namespace: where the scheduler runs.
    image: its image.
    config_map_name: the ConfigMap with its configuration.
    adopting: provider that adopts existing objects. The operator creates the Deployment; the stack must own it to wait
        for its rollout.
    ready_seconds: how long the rollout may take before the update fails.
    """

    scheduler: SecondaryScheduler
    namespace: pulumi.Input[str]
    image: pulumi.Input[str]
    config_map_name: pulumi.Input[str]
    adopting: pulumi.ProviderResource | None
    ready_seconds: int = 180


class OperandRollout(pulumi.ComponentResource):
    """The Deployment of upstream's operator; done when its pods run with this ConfigMap and this image.

    The stack owns only an annotation and labels of it, so that it does not fight with the operator.
    """

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    ready_replicas: pulumi.Output[int]
    health: pulumi.Output[dict[str, Any]]

    def __init__(self, name: str, args: OperandRolloutArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:OperandRollout", name, None, opts)
        gate = pulumi.Output.all(args.image, args.config_map_name).apply(lambda values: json.dumps(_gate(*values)))
        waiting = {
            # Unknown until the operator has created the Deployment: a preview must not try to patch it before.
            "pulumi.com/waitFor": pulumi.Output.all(gate, args.scheduler.status).apply(lambda values: values[0]),
        }
        patience = f"{args.ready_seconds}s"
        options = child(
            self,
            depends_on=[args.scheduler],
            retain_on_delete=True,  # it goes with the SecondaryScheduler; the operator would recreate it before
            custom_timeouts=pulumi.CustomTimeouts(create=patience, update=patience),
        )
        options.provider = args.adopting
        # The provider's SDK may refuse a Deployment without a spec; one that turns out to be None is left out.
        no_spec: Any = pulumi.Output.from_input(None)
        deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata={"name": SCHEDULER_NAME, "namespace": args.namespace, "annotations": waiting},
            spec=no_spec,
            opts=options,
        )
        self.name = args.scheduler.name
        self.namespace = args.scheduler.namespace
        self.ready_replicas = ready_replicas_of(deployment)
        self.health = deployment.status.apply(health_of_deployment)
        self.register_outputs({"name": self.name, "namespace": self.namespace, "readyReplicas": self.ready_replicas})


def _gate(image: str, config_map: str) -> list[str]:
    """Return the wait conditions.

    The Deployment controller sets NewReplicaSetAvailable when every replica has the newest template and is available,
    and `condition=` holds only once the current generation has been observed: a stale status does not pass."""
    return [
        f'jsonpath={{.spec.template.spec.volumes[?(@.configMap.name=="{config_map}")].name}}',
        f"jsonpath={{.spec.template.spec.containers[0].image}}={image}",
        "condition=Available",
        'jsonpath={.status.conditions[?(@.type=="Progressing")].reason}=NewReplicaSetAvailable',
    ]
