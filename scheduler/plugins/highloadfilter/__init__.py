"""HighLoadFilter: no pod on a node that is, or with the pod would be, more loaded than a limit.

Proposed to scheduler-plugins (pull requests 992 and 993); no release has it yet. A node's predicted share is its
measured use plus what the pod requests, in per cent of what the node can allocate; it is rejected above
`usageThresholds`.

`compatibility: upstream` is the proposal. `safe` differs, see `SecondarySchedulerOptions.load.limit` and
docs/differences.md: requests of pods that are not measured yet count, every node's measurement has its own age, where
all nodes are above the limit it steps back, and no pod is preempted on account of it.

Without a usable measurement `failOpen` decides. A resource that is measured is judged though the other is not.
Counter: `stepped_back/HighLoadFilter` (attempts), by the core.
"""

from scheduler.catalog import HighLoadFilterArgs
from scheduler.framework import PluginContext
from scheduler.plugins.highloadfilter.plugin import HighLoadFilter as HighLoadFilter
from scheduler.plugins.highloadfilter.upstream import UpstreamHighLoadFilter as UpstreamHighLoadFilter


def high_load_filter(args: HighLoadFilterArgs, context: PluginContext) -> HighLoadFilter | UpstreamHighLoadFilter:
    """Return the plugin as the profile's `compatibility` wants it."""
    return UpstreamHighLoadFilter(args, context) if context.upstream else HighLoadFilter(args, context)
