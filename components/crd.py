"""The CustomResourceDefinition of SecondaryScheduler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml

from components.kube_object import KubeObject, child

MANIFEST = Path(__file__).parent / "crds" / "operator.openshift.io_secondaryschedulers.yaml"


@dataclass(frozen=True)
class SecondarySchedulerCrdArgs:
    """Attributes:
    keep: refuse to delete the CRD, and leave it in the cluster should the stack go. Deleting a CRD deletes every
        SecondaryScheduler in the cluster, also those that this stack did not make.
    """

    keep: bool = False


class SecondarySchedulerCrd(pulumi.ComponentResource):
    """The CRD; done when the API server serves the kind."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: SecondarySchedulerCrdArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SecondarySchedulerCrd", name, None, opts)
        manifest = load_manifest()
        metadata = {**manifest["metadata"], "annotations": {"pulumi.com/waitFor": "condition=Established"}}
        definition = KubeObject(
            f"{name}-secondaryschedulers",
            {**manifest, "metadata": metadata},
            child(self, protect=args.keep or None, retain_on_delete=args.keep or None),
        )
        self.name = definition.object_name
        self.register_outputs({"name": self.name})


def load_manifest() -> dict[str, Any]:
    """The CRD as it is written in this package."""
    with MANIFEST.open("rb") as file:
        manifest: dict[str, Any] = yaml.load(file, yaml.CSafeLoader)
    return manifest
