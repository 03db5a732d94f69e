"""Which pods of a namespace lead: the Leases of our schedulers name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.catalog import ANNOTATION_CONFIGURATION_HASH
from scheduler.kube.client import KubeError, SyncConnection, api_path
from secondary_scheduler.clusterstatus.installed import installed_components
from secondary_scheduler.clusterstatus.listing import first_names, part, parts, read_object

_MOST_LEASES = 500
_MOST_LEADERS = 10


def leading_pods(connection: SyncConnection, namespace: str) -> list[str]:
    """Return the names of the pods that lead, of all instances in a namespace.

    Raises:
        KubeError: its Leases cannot be listed.
    """
    return holders_of(schedulers_leases(connection, namespace))


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


def schedulers_leases(connection: SyncConnection, namespace: str) -> list[dict[str, Any]]:
    """Return the Leases of a namespace that our schedulers have written to, held or not.

    Raises:
        KubeError: they cannot be listed.
    """
    path = api_path("coordination.k8s.io/v1", "leases", namespace=namespace)
    leases = parts(read_object(connection.get(path, {"limit": _MOST_LEASES}), path), "items")
    return [lease for lease in leases if is_schedulers(lease)]


def is_schedulers(lease: Mapping[str, Any]) -> bool:
    """Whether one of our schedulers has written to a Lease."""
    return ANNOTATION_CONFIGURATION_HASH in part(lease, "metadata", "annotations")


def holders_of(leases: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the pods that hold Leases of our schedulers."""
    return [pod for lease in leases if (pod := holder_of(lease))][:_MOST_LEADERS]


def holder_of(lease: Mapping[str, Any], *, ours_only: bool = True) -> str:
    """The pod that holds a Lease; "" where none does. An identity is `POD_UUID`, as upstream's.

    Args:
        lease: the object.
        ours_only: "" also for a Lease that none of our schedulers has written to.
    """
    if ours_only and not is_schedulers(lease):
        return ""
    return str(part(lease, "spec").get("holderIdentity") or "").rpartition("_")[0]
