"""Where a container's process runs. One module per tier behind ``base.Sandbox``; ``launcher`` is what they start.

``mounts`` gives the process a root of its own by user, mount, pid, ipc and uts namespaces; ``directory`` rewrites paths
and needs nothing but processes. ``choose`` picks the best that works on this host.
"""

from devcluster.node_agent.sandbox.base import LaunchRequest, Sandbox, StartError, VolumeMount
from devcluster.node_agent.sandbox.choice import TIERS, SandboxUnavailableError, choose

__all__ = ["TIERS", "LaunchRequest", "Sandbox", "SandboxUnavailableError", "StartError", "VolumeMount", "choose"]
