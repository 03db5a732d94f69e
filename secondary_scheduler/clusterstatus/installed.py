"""What of ours a cluster runs: its Deployments whose command is that of a scheduler or of the operator, and the pods
that lead, by their Leases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from scheduler.catalog import ANNOTATION_CONFIGURATION_HASH
from scheduler.kube.client import KubeError, SyncConnection, api_path
from secondary_scheduler.clusterstatus.listing import first_names, list_items, read_object
from secondary_scheduler.kubeobjects import KubeObject, part, parts

_MAX_LEASES = 500
_MAX_LEADERS = 10


def installed_elsewhere(connection: SyncConnection) -> str:
    """Return `; schedulers are installed in …` with the namespaces, for an error; "" where there are none, or they may
    not be seen.

    For the user to name one, and never to ask there unasked: whoever may create a Deployment can make it look like a
    scheduler, and its pod would get the caller's token.
    """
    try:
        installed = installed_components(connection, None)
    except KubeError:
        return ""
    namespaces = {component.namespace for component in installed if component.role == "scheduler"}
    return f"; schedulers are installed in {first_names(namespaces)}" if namespaces else ""


def schedulers_leases(connection: SyncConnection, namespace: str) -> list[KubeObject]:
    """Return the Leases of a namespace that our schedulers have written to, held or not.

    Raises:
        KubeError: they cannot be listed.
    """
    path = api_path("coordination.k8s.io/v1", "leases", namespace=namespace)
    leases = parts(read_object(connection.get(path, {"limit": _MAX_LEASES}), path), "items")
    return [lease for lease in leases if is_schedulers(lease)]


def is_schedulers(lease: KubeObject) -> bool:
    """Whether one of our schedulers has written to a Lease."""
    return ANNOTATION_CONFIGURATION_HASH in part(lease, "metadata", "annotations")


def holders_of(leases: Iterable[KubeObject]) -> list[str]:
    """Return the names of the pods that hold Leases of our schedulers."""
    return [pod for lease in leases if (pod := holder_of(lease))][:_MAX_LEADERS]


def holder_of(lease: KubeObject, *, ours_only: bool = True) -> str:
    """The pod that holds a Lease; "" where none does. An identity is `POD_UUID`, as upstream's.

    Args:
        lease: the object.
        ours_only: "" also for a Lease that none of our schedulers has written to.
    """
    if ours_only and not is_schedulers(lease):
        return ""
    return str(part(lease, "spec").get("holderIdentity") or "").rpartition("_")[0]


_ROLES = {"kube-scheduler": "scheduler", "secondary-scheduler-operator": "operator"}


class InstalledComponent(Struct, frozen=True, order=True):
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


def component_of(deployment: KubeObject) -> InstalledComponent | None:
    """What a Deployment runs; None for one that is neither an operator nor a scheduler."""
    spec, metadata = part(deployment, "spec"), part(deployment, "metadata")
    running = role_of(part(spec, "template"))
    if running is None:
        return None
    role, container = running
    ready = f"{part(deployment, 'status').get('readyReplicas') or 0}/{spec.get('replicas', 1)}"
    name, namespace = str(metadata.get("name")), str(metadata.get("namespace"))
    return InstalledComponent(role, namespace, name, str(container.get("image")), ready)


def role_of(pod: KubeObject) -> tuple[str, KubeObject] | None:
    """`operator` or `scheduler`, as the command of a container of a pod, or of a template, says, and that container."""
    for container in parts(pod, "spec", "containers"):
        # Upstream's operator has its name in the first argument of its command, too.
        words = [word for key in ("command", "args") for word in _list(container.get(key))]
        if words and (role := _ROLES.get(str(words[0]).rpartition("/")[2])) is not None:
            return role, container
    return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
