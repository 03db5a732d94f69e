"""Peaks: prefer nodes whose power draw grows least, by a model of power over CPU utilisation per node.

What `compatibility` decides:

- `upstream`: a node without load, without a model, or that the pod would fill beyond 100 %, has the raw score 0, which
  after normalisation is the best one; models from the file count only where the args hold an empty `NodePowerModel`.
- `safe`: a node without (fresh) load is treated as `SecondarySchedulerOptions.load` says, by default estimated by its
  requests; one without a model gets the mean of those with one; one that would exceed 100 % gets 0. Pods assigned too
  recently to show in the averages are added to them. Where no feasible node has a model, or by default where none has
  fresh load, the plugin is left out of the attempt. Counters: see `StalenessPolicy`.
"""

from scheduler.catalog import PeaksArgs
from scheduler.framework import PluginContext
from scheduler.plugins.peaks.plugin import Peaks as Peaks
from scheduler.plugins.peaks.upstream import UpstreamPeaks as UpstreamPeaks


def peaks(args: PeaksArgs, context: PluginContext) -> Peaks:
    """Return the plugin as the profile's `compatibility` wants it."""
    plugin = UpstreamPeaks if context.upstream else Peaks
    return plugin(args, context)
