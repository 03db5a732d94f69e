"""Which version of Kubernetes the cluster has: what the API server says, and what another replica follows already.

During an upgrade, replicas that start may read different versions, and later ones a newer one than the leader. So that
scores do not change with the leader, a replica that starts takes the version of the one that leads, if that is older:
the replicas of one ReplicaSet agree, until a rollout replaces them all. One that started before any other led starts
again, if the leader's version turns out to be older.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from scheduler.catalog import ANNOTATION_CLUSTER_VERSION, minor_of
from scheduler.kube.client import ApiError, KubeClient, KubeError, api_path, server_version
from scheduler.kube.primitives import parse_time

_VERSION_SECONDS, _RETRY_SECONDS = 3.0, 0.25
"""How long the start waits for the cluster's version. Usually the answer comes while the daemon is imported."""
_POD_NAME: Final = re.compile(r"(.+-[bcdf-hj-np-tv-xz2456789]{1,10})-[bcdf-hj-np-tv-xz2456789]{5}")
"""Of a Deployment: the ReplicaSet's name and five characters, of Kubernetes' alphabet without vowels."""
log = structlog.get_logger(component="app")


async def followed_minor(client: KubeClient, lease: tuple[str, str] | None) -> int | None:
    """Return the minor version of Kubernetes 1.x that this replica is to follow; None where it cannot be had in time.

    `lease` is the namespace and name of the replicas' Lease; None where there is no leader election.
    """
    own, leaders = await asyncio.gather(_cluster_minor(client), leaders_minor(client, lease))
    if leaders is None or (own is not None and own <= leaders):
        return own
    log.warning(
        "another replica follows an older version of the cluster, and so does this one until all are replaced",
        version=f"1.{leaders}",
        cluster=cluster_text(own) or "unknown",
    )
    return leaders


def cluster_text(minor: int | None) -> str | None:
    """Return the value of the annotation that tells other replicas of a version; None where it is not known."""
    return None if minor is None else f"1.{minor}"


async def _cluster_minor(client: KubeClient) -> int | None:
    deadline = time.monotonic() + _VERSION_SECONDS
    while True:
        try:
            version = await server_version(client, timeout=max(deadline - time.monotonic(), 0.1))
            break
        except KubeError as error:
            if isinstance(error, ApiError) or time.monotonic() + _RETRY_SECONDS > deadline:
                log.warning("the cluster's version cannot be read", reason=str(error))
                return None
            await asyncio.sleep(_RETRY_SECONDS)
    minor = minor_of(version)
    if minor is None:
        log.warning("the cluster's version is not one of Kubernetes 1.x", version=version[:100])
    return minor


async def leaders_minor(client: KubeClient, lease: tuple[str, str] | None) -> int | None:
    """Return the version that another replica of this one's ReplicaSet follows, which holds the Lease; None where there
    is none, or it cannot be read."""
    if lease is None:
        return None
    namespace, name = lease
    path = api_path("coordination.k8s.io/v1", "leases", namespace=namespace, name=name)
    try:
        record = msgspec.json.decode(await client.get(path, timeout=_VERSION_SECONDS), type=dict[str, Any])
    except (KubeError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Whoever may not read it is told so by leader election.
        return None
    return minor_of_leader(record, socket.gethostname(), datetime.now(UTC))


def minor_of_leader(lease: Mapping[str, Any], hostname: str, now: datetime) -> int | None:
    """Return the version that the holder of a Lease follows, if it is another replica of this one's ReplicaSet."""
    spec, metadata = lease.get("spec"), lease.get("metadata")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        return None
    holder, duration = spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
    annotations = metadata.get("annotations")
    if not isinstance(holder, str) or not isinstance(duration, int) or not isinstance(annotations, dict):
        return None
    other, own = _POD_NAME.fullmatch(holder.partition("_")[0]), _POD_NAME.fullmatch(hostname)
    if other is None or own is None or other[0] == own[0] or other[1] != own[1]:
        return None
    try:
        age = (now - parse_time(str(spec.get("renewTime")))).total_seconds()
    except ValueError:
        return None
    version = annotations.get(ANNOTATION_CLUSTER_VERSION)
    return minor_of(version) if age <= duration and isinstance(version, str) else None
