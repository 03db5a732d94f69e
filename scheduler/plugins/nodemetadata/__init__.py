"""NodeMetadata: prefer nodes by a number or a time in one of their labels or annotations (pkg/nodemetadata of
scheduler-plugins at 903da7df, which 0.35.7 was made of)."""

from scheduler.catalog import NodeMetadataArgs
from scheduler.framework import PluginContext
from scheduler.plugins.nodemetadata.plugin import NodeMetadata as NodeMetadata
from scheduler.plugins.nodemetadata.upstream import UpstreamNodeMetadata as UpstreamNodeMetadata


def node_metadata(args: NodeMetadataArgs, context: PluginContext) -> NodeMetadata:
    """Return the plugin, as upstream has it if the profile says so."""
    return UpstreamNodeMetadata(args) if context.upstream else NodeMetadata(args)
