"""The record of the install mode, whose replacement is the first step of a change of mode."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from .kube_object import child, namespace_of

RECORD_NAME = "secondary-scheduler-installation"


@dataclass(frozen=True)
class InstallationRecordArgs:
    """Attributes:
    namespace: where operator and scheduler run.
    mode: the install mode.
    name: of the ConfigMap.
    """

    namespace: pulumi.Input[str]
    mode: str
    name: pulumi.Input[str] = RECORD_NAME


class InstallationRecord(pulumi.ComponentResource):
    """A ConfigMap with the install mode; everything that belongs to one mode takes its namespace from it.

    Different modes create objects of the same names: the operator creates the Deployment that `direct` creates itself.
    Pulumi creates before it deletes, so on a change of mode the old objects would be in the way. The map is immutable
    and has a fixed name, so another mode replaces it by deleting it first, and with it everything that takes its
    namespace from it: a namespace that is not known yet makes Pulumi replace the object.
    """

    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: InstallationRecordArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:InstallationRecord", name, None, opts)
        record = k8s.core.v1.ConfigMap(
            f"{name}-configmap",
            metadata={"name": args.name, "namespace": args.namespace},
            immutable=True,
            data={"installMode": args.mode},
            opts=child(self),
        )
        self.namespace = namespace_of(record)
        self.register_outputs({"namespace": self.namespace})
