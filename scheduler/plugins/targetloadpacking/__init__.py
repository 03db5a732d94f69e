"""TargetLoadPacking: fill nodes up to a target CPU utilisation by measured load, then spread.

What happens on a node without (fresh) load depends on `compatibility`:

- `upstream`: it scores 0, as upstream, and measurements never grow old.
- `safe`: as `SecondarySchedulerOptions.load` says. By default its utilisation is estimated by what its pods request,
  times `defaultRequestsMultiplier`, so that neither a new node nor a broken exporter makes a node look idle or full;
  where no feasible node has fresh load the plugin is left out of the attempt and the other plugins decide. Counters:
  see `StalenessPolicy`.
"""

from scheduler.catalog import TargetLoadPackingArgs
from scheduler.framework import PluginContext
from scheduler.plugins.targetloadpacking.plugin import TargetLoadPacking as TargetLoadPacking
from scheduler.plugins.targetloadpacking.upstream import UpstreamTargetLoadPacking as UpstreamTargetLoadPacking


def target_load_packing(args: TargetLoadPackingArgs, context: PluginContext) -> TargetLoadPacking:
    """Return the plugin as the profile's `compatibility` wants it."""
    plugin = UpstreamTargetLoadPacking if context.upstream else TargetLoadPacking
    return plugin(args, context)
