"""LoadVariationRiskBalancing: prefer nodes whose load is low and steady; the worse of CPU and memory counts.

What happens on a node without (fresh) load depends on `compatibility`:

- `upstream`: it scores 0, a deviation alone makes it look idle, and pods placed since the measurement do not count.
- `safe`: as `SecondarySchedulerOptions.load` says. By default what is not measured on a node is estimated by what its
  pods request; a resource that is measured on no feasible node does not count beside one that is, and where neither is
  the plugin is left out of the attempt. Pods assigned too recently to show in the averages are added to them. Counters:
  see `StalenessPolicy`; a node counts where one of the two resources is not fresh.
"""

from scheduler.catalog import LoadVariationRiskBalancingArgs
from scheduler.framework import PluginContext
from scheduler.plugins.loadvariationriskbalancing.plugin import LoadVariationRiskBalancing as LoadVariationRiskBalancing
from scheduler.plugins.loadvariationriskbalancing.upstream import (
    UpstreamLoadVariationRiskBalancing as UpstreamLoadVariationRiskBalancing,
)


def load_variation_risk_balancing(
    args: LoadVariationRiskBalancingArgs, context: PluginContext
) -> LoadVariationRiskBalancing:
    """Return the plugin as the profile's `compatibility` wants it."""
    plugin = UpstreamLoadVariationRiskBalancing if context.upstream else LoadVariationRiskBalancing
    return plugin(args, context)
