"""The wait for what upstream's operator makes of a SecondaryScheduler, of which it reports nothing itself."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pulumi

from components.kube_object import KubeObject, child
from components.secondary_scheduler import SCHEDULER_NAME, SecondaryScheduler


@dataclass(frozen=True)
class OperandRolloutArgs:
    """Attributes:
    scheduler: what the operator was told.
    namespace: where the scheduler runs.
    image: its image.
    config_map_name: the ConfigMap with its configuration.
    adopting: provider that takes over objects which exist: the operator makes the Deployment, and to wait for its
        roll-out, it has to be this stack's.
    ready_seconds: how long the roll-out may take until the update has failed.
    """

    scheduler: SecondaryScheduler
    namespace: pulumi.Input[str]
    image: str
    config_map_name: pulumi.Input[str]
    adopting: pulumi.ProviderResource | None
    ready_seconds: int = 180


class OperandRollout(pulumi.ComponentResource):
    """The Deployment that upstream's operator makes; done when its pods are of this map and this image and run.

    Nothing but annotation and labels is said of it: that the stack owns no more leaves the operator alone.
    """

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    ready_replicas: pulumi.Output[int]

    def __init__(self, name: str, args: OperandRolloutArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:OperandRollout", name, None, opts)
        gate = pulumi.Output.from_input(args.config_map_name).apply(lambda name: json.dumps(_gate(args.image, name)))
        waiting = {
            # Not known before the operator has written a Deployment: a preview cannot try to patch what is not there.
            "pulumi.com/waitFor": pulumi.Output.all(gate, args.scheduler.status).apply(lambda values: values[0]),
        }
        patience = f"{args.ready_seconds}s"
        options = child(
            self,
            depends_on=[args.scheduler],
            retain_on_delete=True,  # it goes with the resource, and its operator would only make it anew
            custom_timeouts=pulumi.CustomTimeouts(create=patience, update=patience),
        )
        options.provider = args.adopting
        metadata = {"name": SCHEDULER_NAME, "namespace": args.namespace, "annotations": waiting}
        deployment = KubeObject(
            f"{name}-deployment", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}, options
        )
        self.name = args.scheduler.name
        self.namespace = args.scheduler.namespace
        self.ready_replicas = deployment.status.apply(lambda status: int((status or {}).get("readyReplicas", 0)))
        self.register_outputs({"name": self.name, "namespace": self.namespace, "readyReplicas": self.ready_replicas})


def _gate(image: str, config_map: str) -> list[str]:
    """The Deployment controller says NewReplicaSetAvailable when every replica is of the newest template and available,
    and `condition=` counts only once the generation at hand has been observed: a stale status does not pass."""
    return [
        f'jsonpath={{.spec.template.spec.volumes[?(@.configMap.name=="{config_map}")].name}}',
        f"jsonpath={{.spec.template.spec.containers[0].image}}={image}",
        "condition=Available",
        'jsonpath={.status.conditions[?(@.type=="Progressing")].reason}=NewReplicaSetAvailable',
    ]
