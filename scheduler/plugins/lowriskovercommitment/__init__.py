"""LowRiskOverCommitment: prefer nodes where limits beyond requests, and load beyond requests, are least likely to hurt.

Pods without any request or limit score 0 everywhere. What happens on a node without (fresh) load depends on
`compatibility`:

- `upstream`: it scores 0; one resource without load counts as without load risk.
- `safe`: as `SecondarySchedulerOptions.load` says. By default a resource that is not measured on a node is judged by
  limits and requests alone, and where nothing is measured on any feasible node the plugin is left out of the attempt.
  Pods assigned too recently to show in the averages are added to them, as they are to the requests that the load is
  compared with. Counters: see `StalenessPolicy`; a node counts where one of the two resources is not fresh.
"""

from scheduler.catalog import LowRiskOverCommitmentArgs
from scheduler.framework import PluginContext
from scheduler.plugins.lowriskovercommitment.plugin import LowRiskOverCommitment as LowRiskOverCommitment
from scheduler.plugins.lowriskovercommitment.upstream import (
    UpstreamLowRiskOverCommitment as UpstreamLowRiskOverCommitment,
)


def low_risk_over_commitment(args: LowRiskOverCommitmentArgs, context: PluginContext) -> LowRiskOverCommitment:
    """Return the plugin as the profile's `compatibility` wants it."""
    plugin = UpstreamLowRiskOverCommitment if context.upstream else LowRiskOverCommitment
    return plugin(args, context)
