"""Containers by podman with runc: ``host`` looks for them, ``containers`` turns a pod's spec into a command line, and
starts, watches and ends them for the agent. Nothing is pulled: an image is on this machine or absent.
"""

from devcluster.node_agent.podman.containers import PodmanContainers as PodmanContainers
from devcluster.node_agent.podman.host import (
    PodmanUnavailableError as PodmanUnavailableError,
    find_podman as find_podman,
    remove_containers as remove_containers,
)
