"""Each schedulerName once per cluster: two schedulers of one name would both bind its pods."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import get_root_resource

from .kube_object import ClusterProvider

_KIND = "kubernetes:core/v1:Namespace"
_Claims: TypeAlias = dict[tuple[Hashable, str], str]
"""By cluster and schedulerName the installation that has it."""
_claims: WeakKeyDictionary[pulumi.Resource, _Claims] = WeakKeyDictionary()
"""By program, which is known by its root."""
_packaged_claims: dict[Hashable, _Claims] = {}
"""By update: those of programs in other processes, for which this one serves the component package. The engine starts
such a process for each preview and each update, and ends it."""


def claim_scheduler_names(installation: pulumi.Resource, name: str, scheduler_names: Iterable[str]) -> None:
    """Note the schedulerNames of an installation.

    Args:
        installation: its component; its provider tells the cluster.
        name: its name, for the message.
        scheduler_names: of its profiles.

    Raises:
        pulumi.RunError: another installation of this program has one of them on the same cluster.
    """
    claims, cluster = _claims_of_program(), _cluster(installation)
    for scheduler_name in scheduler_names:
        owner = claims.setdefault((cluster, scheduler_name), name)
        if owner != name:
            raise pulumi.RunError(
                f"{name}: schedulerName {scheduler_name} is that of {owner} on the same cluster; both would bind its "
                "pods, so give one of them another name"
            )


def _claims_of_program() -> _Claims:
    root = get_root_resource()
    if root is not None:
        return _claims.setdefault(root, {})
    update = (pulumi.get_organization(), pulumi.get_project(), pulumi.get_stack(), pulumi.runtime.is_dry_run())
    return _packaged_claims.setdefault(update, {})


def _cluster(installation: pulumi.Resource) -> Hashable:
    """What two providers of one cluster have in common."""
    provider = installation.get_provider(_KIND)
    if isinstance(provider, ClusterProvider):
        return provider.cluster_identifier
    # In a component package each installation gets an object of its own for one and the same provider.
    return provider.pulumi_resource_name if provider is not None and get_root_resource() is None else id(provider)
