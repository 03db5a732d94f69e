"""CustomResourceDefinitions: of SecondaryScheduler, and those that plugins need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import yaml

from .kube_object import child, in_kubernetes_spelling, name_of
from .schema_change import SchemaChange

DIRECTORY = Path(__file__).parent / "crds"
SECONDARY_SCHEDULERS = "secondaryschedulers.operator.openshift.io"


@dataclass(frozen=True)
class SecondarySchedulerCrdArgs:
    """Attributes:
    keep: keep the CRD when the stack is destroyed. Deleting a CRD deletes every SecondaryScheduler in the cluster,
        also those that this stack did not create.
    protect: refuse to delete it at all.
    """

    keep: bool = False
    protect: bool = False


class SecondarySchedulerCrd(pulumi.ComponentResource):
    """The CRD; done when the API server serves the kind.

    `changes` is True in the preview of an update after which it accepts other objects than now.
    """

    name: pulumi.Output[str]
    changes: pulumi.Output[bool]

    def __init__(self, name: str, args: SecondarySchedulerCrdArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SecondarySchedulerCrd", name, None, opts)
        change = SchemaChange(name)
        self.name = name_of(_definition(self, name, SECONDARY_SCHEDULERS, args.keep, args.protect, change))
        self.changes = self.name.apply(lambda _: change.seen)
        self.register_outputs({"name": self.name})


@dataclass(frozen=True)
class PluginCrdsArgs:
    """Attributes:
    names: CRDs that the enabled plugins need, as `plural.group`. For one that this package does not have there is a
        warning.
    keep: keep them when the stack is destroyed: deleting a CRD deletes its objects.
    protect: refuse to delete them at all.
    """

    names: Iterable[str]
    keep: bool = False
    protect: bool = False


class PluginCrds(pulumi.ComponentResource):
    """The CRDs that plugins need, such as PodGroup; done when the API server serves the kinds."""

    names: list[pulumi.Output[str]]

    def __init__(self, name: str, args: PluginCrdsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:PluginCrds", name, None, opts)
        bundled = bundled_crds()
        self.names = []
        for crd in sorted(set(args.names)):
            if crd in bundled:
                self.names.append(name_of(_definition(self, name, crd, args.keep, args.protect)))
            else:
                pulumi.log.warn(
                    f"an enabled plugin needs the CRD {crd}, which is not bundled: install it with the plugin",
                    self,
                )
        self.register_outputs({"names": self.names})


def bundled_crds() -> frozenset[str]:
    """Names of the CRDs in this package, as `plural.group`."""
    return frozenset("{2}.{0}".format(*file.stem.partition("_")) for file in DIRECTORY.glob("*.yaml"))


def load_manifest(name: str = SECONDARY_SCHEDULERS) -> dict[str, Any]:
    """Return a CRD of this package."""
    plural, _, group = name.partition(".")
    with (DIRECTORY / f"{group}_{plural}.yaml").open("rb") as file:
        manifest: dict[str, Any] = yaml.load(file, yaml.CSafeLoader)
    return manifest


def _definition(
    component: pulumi.ComponentResource,
    prefix: str,
    name: str,
    keep: bool,
    protect: bool,
    change: SchemaChange | None = None,
) -> k8s.apiextensions.v1.CustomResourceDefinition:
    manifest = load_manifest(name)
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), "pulumi.com/waitFor": "condition=Established"}
    opts = child(component, protect=protect or None, retain_on_delete=keep or None)
    if change is not None:
        opts.hooks = change.hooks
    return k8s.apiextensions.v1.CustomResourceDefinition(
        f"{prefix}-{name.partition('.')[0]}",
        metadata=in_kubernetes_spelling({**metadata, "annotations": annotations}),
        spec=in_kubernetes_spelling(manifest["spec"]),
        opts=opts,
    )
