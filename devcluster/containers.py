"""Podman for a cluster's real nodes: what must be there before it starts, and that nothing is left when it ends."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

from devcluster.errors import ServiceError
from devcluster.node_agent.podman import PodmanUnavailableError, find_podman, remove_containers
from devcluster.services.nodes import OPERATOR_IMAGE, SCHEDULER_IMAGE
from devcluster.state import Containers

_OTHERWISE = "or start the cluster without podman, with pods as processes"


def require_podman() -> None:
    """Raise ServiceError where podman, runc or the images of this version are missing."""
    images = [f"{repository}:{version('secondary-scheduler')}" for repository in (SCHEDULER_IMAGE, OPERATOR_IMAGE)]
    try:
        missing = find_podman().missing_images(images)
    except PodmanUnavailableError as error:
        raise ServiceError(f"pods cannot be containers: {error}; {_OTHERWISE}") from error
    if missing:
        raise ServiceError(
            f"pods cannot be containers: podman has no image {', '.join(missing)}: build it with `make image`; "
            f"{_OTHERWISE}"
        )


def remove(directory: Path, known: Containers | None) -> None:
    """Remove the containers of a cluster by its state directory. `known`: what its containers are; None if unreadable.

    Raises ServiceError with the command that does it by hand.
    """
    program = shutil.which("podman")
    if known == "processes" or program is None:
        return
    try:
        remove_containers(program, directory)
    except PodmanUnavailableError as error:
        if known is None:  # there may be none, and the rest of a damaged cluster must go
            return
        raise ServiceError(f"{error}; look with: podman ps --all, and remove them with: podman rm --force") from error
