"""Containers by podman with runc: ``host`` looks for them, ``arguments`` turns a pod's spec into a command line.

``containers`` starts, watches and ends them for the agent. Nothing is pulled: an image is on this machine or absent.
"""

from devcluster.node_agent.podman.containers import PodmanContainers
from devcluster.node_agent.podman.host import PodmanHost, PodmanUnavailableError, find_podman, remove_containers

__all__ = ["PodmanContainers", "PodmanHost", "PodmanUnavailableError", "find_podman", "remove_containers"]
