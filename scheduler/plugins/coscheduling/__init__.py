"""Coscheduling: pods of a PodGroup run together or not at all (pkg/coscheduling of scheduler-plugins 0.34.7)."""

from scheduler.catalog import CoschedulingArgs
from scheduler.framework import PluginContext
from scheduler.plugins.coscheduling.safe import SafeCoscheduling as SafeCoscheduling
from scheduler.plugins.coscheduling.upstream import UpstreamCoscheduling as UpstreamCoscheduling


def coscheduling(args: CoschedulingArgs, context: PluginContext) -> SafeCoscheduling | UpstreamCoscheduling:
    """Return the plugin as the profile's `compatibility` wants it."""
    return UpstreamCoscheduling(args, context) if context.upstream else SafeCoscheduling(args, context)
