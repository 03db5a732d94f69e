"""Which pods of a namespace lead: the Leases of our schedulers name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.catalog import ANNOTATION_CONFIGURATION_HASH, OPERATOR_NAMESPACE
from scheduler.kube.client import KubeError, SyncConnection, api_path
from secondary_scheduler.clusterstatus.installed import installed_components
from secondary_scheduler.clusterstatus.listing import part, parts, read_object
from secondary_scheduler.errors import CommandError, printable

_MOST_LEASES = 500
_MOST_LEADERS = 10


def leading_pods(connection: SyncConnection, namespace: str) -> list[str]:
    """Return the names of the pods that lead, of all instances in a namespace.

    Raises:
        KubeError: its Leases cannot be listed.
    """
    return holders_of(schedulers_leases(connection, namespace))


def place_of_schedulers(connection: SyncConnection) -> str:
    """Return the namespace in which schedulers are asked if the user names none: the operator's, or, where none of them
    has been there, the only one in which a scheduler is installed.

    Raises:
        CommandError: they are installed in several.
        KubeError: the Leases of the operator's namespace cannot be listed.
    """
    if schedulers_leases(connection, OPERATOR_NAMESPACE):
        return OPERATOR_NAMESPACE
    try:
        installed = installed_components(connection, None)
    except KubeError:
        return OPERATOR_NAMESPACE
    namespaces = sorted({component.namespace for component in installed if component.role == "scheduler"})
    if len(namespaces) > 1:
        places = ", ".join(namespaces)
        raise CommandError(
            printable(f"schedulers run in several namespaces: name one with --scheduler-namespace ({places})")
        )
    return namespaces[0] if namespaces else OPERATOR_NAMESPACE


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
