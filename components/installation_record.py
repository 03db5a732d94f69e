"""What says how this installation is made, and what a change of that begins with."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components.kube_object import KubeObject, child

RECORD_NAME = "secondary-scheduler-installation"


@dataclass(frozen=True)
class InstallationRecordArgs:
    """Attributes:
    namespace: where operator and scheduler run.
    mode: the install mode.
    """

    namespace: pulumi.Input[str]
    mode: str


class InstallationRecord(pulumi.ComponentResource):
    """A ConfigMap with the install mode, through which everything that belongs to one mode gets its namespace.

    Modes make objects of the same names: the operator makes the Deployment that `direct` makes itself. Pulumi creates
    first and deletes what is no longer wanted at the end, so a switch would find the old objects in its way. The map is
    immutable and has a fixed name, so that another mode deletes it before it is made anew, and with it first whatever
    cannot outlive it: a namespace that is not known yet means another object.
    """

    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: InstallationRecordArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:InstallationRecord", name, None, opts)
        record = KubeObject(
            f"{name}-configmap",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": RECORD_NAME, "namespace": args.namespace},
                "immutable": True,
                "data": {"installMode": args.mode},
            },
            child(self),
        )
        self.namespace = record.metadata.apply(lambda metadata: str(metadata["namespace"]))
        self.register_outputs({"namespace": self.namespace})
