"""The SecondaryScheduler resource, with which the operator is told what to run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.kube_object import KubeObject, child
from components.metric_credentials import SecretKeyReference

# Upstream's operator serves the resource of this name only. What it makes of it is named as below.
RESOURCE_NAME = "cluster"
SCHEDULER_NAME = "secondary-scheduler"


@dataclass(frozen=True)
class SecondarySchedulerArgs:
    """Attributes:
    namespace: where operator and scheduler run.
    image: the scheduler's image.
    config_map_name: the ConfigMap with its configuration.
    configuration_hash: hash of that configuration, which the running scheduler must report.
    log_level: the scheduler's verbosity: Normal, Debug, Trace or TraceAll.
    metric_credentials: with what the scheduler reads its metric source, if from a Secret.
    needs: what must be there before this resource and outlive it; above all the operator, which takes the scheduler
        away when the resource is deleted.
    protect: refuse to delete the resource.
    allow_default_scheduler_name: let a profile be named default-scheduler.
    """

    namespace: pulumi.Input[str]
    image: str
    config_map_name: pulumi.Input[str]
    configuration_hash: str
    log_level: str = "Normal"
    metric_credentials: SecretKeyReference | None = None
    needs: Sequence[pulumi.Resource] = ()
    protect: bool = False
    allow_default_scheduler_name: bool = False


class SecondaryScheduler(pulumi.ComponentResource):
    """The resource; done when the scheduler is available *with the configuration of this stack*.

    `Available` alone would pass at once on an update: it was true of the scheduler with the old configuration.
    """

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    ready_replicas: pulumi.Output[int]

    def __init__(self, name: str, args: SecondarySchedulerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SecondaryScheduler", name, None, opts)
        gate = ["condition=Available", f"jsonpath={{.status.configurationHash}}={args.configuration_hash}"]
        resource = KubeObject(
            f"{name}-resource",
            {
                "apiVersion": "operator.openshift.io/v1",
                "kind": "SecondaryScheduler",
                "metadata": {
                    "name": RESOURCE_NAME,
                    "namespace": args.namespace,
                    "annotations": {"pulumi.com/waitFor": json.dumps(gate)},
                },
                "spec": _spec(args),
            },
            child(
                self,
                depends_on=args.needs,
                protect=args.protect or None,
                # The default of ten minutes is long to look at a scheduler that does not come up. An update is first
                # proven by a candidate, which has three minutes of its own.
                custom_timeouts=pulumi.CustomTimeouts(create="3m", update="6m", delete="3m"),
            ),
        )
        self.name = pulumi.Output.from_input(SCHEDULER_NAME)
        self.namespace = resource.metadata.apply(lambda metadata: str(metadata["namespace"]))
        self.ready_replicas = resource.status.apply(lambda status: int((status or {}).get("readyReplicas", 0)))
        self.register_outputs(
            {"name": self.name, "namespace": self.namespace, "readyReplicas": self.ready_replicas},
        )


def _spec(args: SecondarySchedulerArgs) -> dict[str, Any]:
    # Only what this stack means to decide: observedConfig and status belong to the operator.
    spec: dict[str, Any] = {
        "managementState": "Managed",
        "schedulerConfig": args.config_map_name,
        "schedulerImage": args.image,
        "logLevel": args.log_level,
    }
    if args.allow_default_scheduler_name:
        spec["allowDefaultSchedulerName"] = True
    if args.metric_credentials is not None:
        spec["metricCredentials"] = {
            "secretName": args.metric_credentials.secret_name,
            "key": args.metric_credentials.key,
        }
    return spec
