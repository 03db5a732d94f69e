"""The ConfigMap that holds the scheduler's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as k8s

from scheduler.config import Configuration

from .document import load_document
from .kube_object import child, name_of

CONFIGURATION_KEY = "config.yaml"
_HASH_DIGITS = 8
_BEFORE = "configmap"
"""Alias: the resource's name in older versions, where one resource was replaced."""


@dataclass(frozen=True)
class SchedulerConfigurationArgs:
    """Attributes:
    namespace: where the scheduler runs.
    base_name: the ConfigMap's name without its suffix; at most 54 characters, because upstream's operator uses the
        whole name as an annotation key.
    content: a KubeSchedulerConfiguration as YAML; a wrong one fails the preview.
    holds_token: the content holds a token, and is encrypted in the state. The cluster has it in clear.
    image: the image that it is for; default: ours.
    checked: the content as `load_document` has judged it already, perhaps with rules of its own.
    """

    namespace: pulumi.Input[str]
    base_name: str
    content: str = field(repr=False)
    holds_token: bool = False
    image: str = ""
    checked: Configuration | None = field(default=None, repr=False)


class SchedulerConfiguration(pulumi.ComponentResource):
    """A ConfigMap whose name, and whose resource's name, follow from its content.

    A change therefore creates a new map, switches the SecondaryScheduler to it, waits for the rollout and only then
    deletes the old map; restoring the old content restores the old name. Replacing one resource instead would prevent a
    rollback: after a failed wait the old map is pending deletion, and Pulumi cannot go back to it.
    """

    config_map_name: pulumi.Output[str]
    configuration_hash: str

    def __init__(self, name: str, args: SchedulerConfigurationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SchedulerConfiguration", name, None, opts)
        configuration = args.checked or load_document(
            args.content, source=f"{name}: content", image=args.image, allow_token_in_config_map=args.holds_token
        )
        self.configuration_hash = configuration.hash
        digits = self.configuration_hash[:_HASH_DIGITS]
        options = child(self)
        options.aliases = [pulumi.Alias(name=f"{name}-{_BEFORE}")]
        config_map = k8s.core.v1.ConfigMap(
            f"{name}-configmap-{digits}",
            metadata={"name": f"{args.base_name}-{digits}", "namespace": args.namespace},
            immutable=True,  # the name follows from the content
            data={CONFIGURATION_KEY: pulumi.Output.secret(args.content) if args.holds_token else args.content},
            opts=options,
        )
        self.config_map_name = name_of(config_map)
        self.register_outputs(
            {"configMapName": self.config_map_name, "configurationHash": self.configuration_hash},
        )
