"""The ConfigMap that holds the scheduler's configuration."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components.kube_object import KubeObject, child
from scheduler.config import configuration_hash

CONFIGURATION_KEY = "config.yaml"
_HASH_DIGITS = 8
_BEFORE = "configmap"
"""What the resource was called while one replaced the other."""


@dataclass(frozen=True)
class SchedulerConfigurationArgs:
    """Attributes:
    namespace: where the scheduler runs.
    base_name: the ConfigMap's name without its suffix; at most 54 characters, because upstream's operator makes an
        annotation key of the whole name.
    content: a valid KubeSchedulerConfiguration as YAML.
    """

    namespace: pulumi.Input[str]
    base_name: str
    content: str


class SchedulerConfiguration(pulumi.ComponentResource):
    """A ConfigMap whose name follows from its content, and so does that of its resource.

    A change therefore creates a new map, switches the SecondaryScheduler over to it, waits for that, and only then
    deletes the old one; bringing the old content back brings the old name back. One resource that is replaced would not
    do: where the wait has failed, the old map is still there, to be deleted, and could not be gone back to.
    """

    config_map_name: pulumi.Output[str]
    configuration_hash: str

    def __init__(self, name: str, args: SchedulerConfigurationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SchedulerConfiguration", name, None, opts)
        self.configuration_hash = configuration_hash(args.content)
        digits = self.configuration_hash[:_HASH_DIGITS]
        options = child(self)
        options.aliases = [pulumi.Alias(name=f"{name}-{_BEFORE}")]
        config_map = KubeObject(
            f"{name}-configmap-{digits}",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": f"{args.base_name}-{digits}",
                    "namespace": args.namespace,
                },
                "immutable": True,  # the name says what is in it
                "data": {CONFIGURATION_KEY: args.content},
            },
            options,
        )
        self.config_map_name = config_map.object_name
        self.register_outputs(
            {"configMapName": self.config_map_name, "configurationHash": self.configuration_hash},
        )
