"""The descriptor of SchedulerTimestamp: what validation, RBAC and rendering need to know of it.

Imports nothing but the catalogue, as `pulumi preview` imports it too; the plugin itself is in `plugin.py`.
"""

from collections.abc import Iterator

from scheduler.catalog import ArgsModel, ExtensionPoint, PluginDescriptor, PolicyRule

__all__ = ["DESCRIPTOR", "SchedulerTimestampArgs"]


class SchedulerTimestampArgs(ArgsModel):
    """`args` of the plugin in `pluginConfig`: unknown fields and wrong types are refused like everywhere else."""

    annotation: str = "Scheduler-Timestamp"

    def check(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """What decodes but is not allowed, each at its field path."""
        if not self.annotation or len(self.annotation) > 63:
            yield ("annotation",), "must be an annotation key of 1 to 63 characters"


DESCRIPTOR = PluginDescriptor(
    name="SchedulerTimestamp",
    points=frozenset({ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE, ExtensionPoint.RESERVE}),
    args_model=SchedulerTimestampArgs,
    default_weight=1,
    # The scheduler's own rights do not include changing pods: the ClusterRole of this plugin does, and is bound to the
    # scheduler only where a configuration enables the plugin.
    rules=(PolicyRule(("",), ("pods",), ("patch",)),),
    implemented=True,
    flavours=frozenset({"ours"}),
    factory="scheduler_timestamp.plugin:SchedulerTimestamp",
)
