"""What of ours a cluster runs: its Deployments whose command is that of a scheduler or of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from scheduler.kube.client import SyncConnection, api_path
from secondary_scheduler.clusterstatus.listing import list_items, part, parts, read_object

_ROLES = {"kube-scheduler": "scheduler", "secondary-scheduler-operator": "operator"}


@dataclass(frozen=True, order=True)
class InstalledComponent:
    """A Deployment of ours, or of the Go originals.

    Attributes:
        role: `operator` or `scheduler`.
        ready: as kubectl shows it, `1/1`.
    """

    role: str
    namespace: str
    name: str
    image: str
    ready: str

    def to_dict(self) -> dict[str, str]:
        """For documents."""
        return asdict(self)


def server_version(connection: SyncConnection) -> str:
    """The API server's `gitVersion`.

    Raises:
        KubeError: it does not answer, or with something else.
    """
    return str(read_object(connection.get("/version"), "/version").get("gitVersion") or "unknown")


def installed_components(connection: SyncConnection, namespace: str | None) -> list[InstalledComponent]:
    """Operators and schedulers of a namespace (None: of all), operators first.

    Raises:
        KubeError: Deployments cannot be listed.
    """
    path = api_path("apps/v1", "deployments", namespace=namespace)
    components = [
        component for deployment in list_items(connection, path) if (component := component_of(deployment)) is not None
    ]
    return sorted(components)


def component_of(deployment: Mapping[str, Any]) -> InstalledComponent | None:
    """What a Deployment runs; None for one that is neither an operator nor a scheduler."""
    spec, metadata = part(deployment, "spec"), part(deployment, "metadata")
    running = role_of(part(spec, "template"))
    if running is None:
        return None
    role, container = running
    ready = f"{part(deployment, 'status').get('readyReplicas') or 0}/{spec.get('replicas', 1)}"
    name, namespace = str(metadata.get("name")), str(metadata.get("namespace"))
    return InstalledComponent(role, namespace, name, str(container.get("image")), ready)


def role_of(pod: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """`operator` or `scheduler`, as the command of a container of a pod, or of a template, says, and that container."""
    for container in parts(pod, "spec", "containers"):
        # Upstream's operator has its name in the first argument of its command, too.
        words = [word for key in ("command", "args") for word in _list(container.get(key))]
        if words and (role := _ROLES.get(str(words[0]).rpartition("/")[2])) is not None:
            return role, container
    return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
