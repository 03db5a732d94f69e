"""Each schedulerName once per cluster: two schedulers of one name would both bind its pods."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import get_root_resource

from .kube_object import ClusterProvider

_KIND = "kubernetes:core/v1:Namespace"
_claims: WeakKeyDictionary[pulumi.Resource, dict[tuple[Hashable, str], str]] = WeakKeyDictionary()
"""By program, which is known by its root, the installation that has a schedulerName on a cluster."""


def claim_scheduler_names(installation: pulumi.Resource, name: str, scheduler_names: Iterable[str]) -> None:
    """Note the schedulerNames of an installation.

    Args:
        installation: its component; its provider tells the cluster.
        name: its name, for the message.
        scheduler_names: of its profiles.

    Raises:
        pulumi.RunError: another installation of this program has one of them on the same cluster.
    """
    root = get_root_resource()
    if root is None:
        return  # a component package: the program is another process
    claims, cluster = _claims.setdefault(root, {}), _cluster(installation)
    for scheduler_name in scheduler_names:
        owner = claims.setdefault((cluster, scheduler_name), name)
        if owner != name:
            raise pulumi.RunError(
                f"{name}: schedulerName {scheduler_name} is that of {owner} on the same cluster; both would bind its "
                "pods, so give one of them another name"
            )


def _cluster(installation: pulumi.Resource) -> Hashable:
    """What two providers of one cluster have in common."""
    provider = installation.get_provider(_KIND)
    return provider.cluster_identifier if isinstance(provider, ClusterProvider) else id(provider)
