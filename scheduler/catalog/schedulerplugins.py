"""The plugins of sigs.k8s.io/scheduler-plugins that this scheduler has, and the entry for its own options."""

from scheduler.catalog.args_trimaran import TargetLoadPackingArgs
from scheduler.catalog.descriptor import PluginDescriptor, PolicyRule, points
from scheduler.catalog.options import SecondarySchedulerOptionsArgs

OPTIONS = "SecondarySchedulerOptions"
"""Name of the pluginConfig entry that carries our own options. No plugin has this name and none can be enabled by
it."""

_OURS_AND_SCHEDULER_PLUGINS = frozenset({"ours", "scheduler-plugins"})

SCHEDULER_PLUGINS: tuple[PluginDescriptor, ...] = (
    PluginDescriptor(
        "TargetLoadPacking",
        points(["score"]),
        TargetLoadPackingArgs,
        rules=(PolicyRule(("metrics.k8s.io",), ("nodes",), ("get", "list")),),
        implemented=True,
        flavours=_OURS_AND_SCHEDULER_PLUGINS,
    ),
)

OPTIONS_DESCRIPTOR = PluginDescriptor(
    OPTIONS,
    frozenset(),
    SecondarySchedulerOptionsArgs,
    implemented=True,
    flavours=frozenset({"ours"}),
)
