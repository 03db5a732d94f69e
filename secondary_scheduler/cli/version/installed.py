"""What of ours a cluster runs: its Deployments whose command is that of a scheduler or of the operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from scheduler.kube.client import MalformedResponse, SyncConnection, api_path

_PAGE = 200
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
    return str(_object(connection.get("/version"), "/version").get("gitVersion") or "unknown")


def installed_components(connection: SyncConnection, namespace: str | None) -> list[InstalledComponent]:
    """Operators and schedulers of a namespace (None: of all), operators first.

    Raises:
        KubeError: Deployments cannot be listed.
    """
    path = api_path("apps/v1", "deployments", namespace=namespace)
    components = [
        component for deployment in _items(connection, path) if (component := _component(deployment)) is not None
    ]
    return sorted(components)


def _items(connection: SyncConnection, path: str) -> Iterator[dict[str, Any]]:
    token = ""
    while True:
        page = _object(connection.get(path, {"limit": _PAGE, **({"continue": token} if token else {})}), path)
        yield from (item for item in page.get("items") or () if isinstance(item, dict))
        token = str((page.get("metadata") or {}).get("continue") or "")
        if not token:
            return


def _component(deployment: dict[str, Any]) -> InstalledComponent | None:
    spec, status, metadata = (deployment.get(key) or {} for key in ("spec", "status", "metadata"))
    for container in ((spec.get("template") or {}).get("spec") or {}).get("containers") or ():
        # Upstream's operator has its name in the first argument of its command, too.
        command = [*(container.get("command") or ()), *(container.get("args") or ())][:1] or [""]
        role = _ROLES.get(str(command[0]).rpartition("/")[2])
        if role is not None:
            ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas', 1)}"
            name, namespace = str(metadata.get("name")), str(metadata.get("namespace"))
            return InstalledComponent(role, namespace, name, str(container.get("image")), ready)
    return None


def _object(body: bytes, path: str) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise MalformedResponse(f"GET {path}: not a JSON object")
    return content
