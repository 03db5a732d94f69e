"""Replicas of one Deployment follow one version of the cluster, also while it is upgraded."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.catalog import ANNOTATION_CLUSTER_VERSION
from scheduler.clusterversion import cluster_text, followed_minor, minor_of_leader
from scheduler.kube.client import ConnectionFailed
from scheduler.kube.client.errors import api_error

NOW = datetime(2026, 11, 23, 4, tzinfo=UTC)
LEASE = ("ns", "secondary-scheduler")
OWN, PEER = "secondary-scheduler-7d9f8b6c5-x2x4z", "secondary-scheduler-7d9f8b6c5-bcdfg"
OTHER_REVISION = "secondary-scheduler-5c4d8b7f9-bcdfg"


def lease(holder: str = PEER, version: object = "1.35", *, age: float = 3.0, now: datetime = NOW) -> dict[str, Any]:
    renewed = (now - timedelta(seconds=age)).isoformat().replace("+00:00", "Z")
    return {
        "metadata": {"annotations": {ANNOTATION_CLUSTER_VERSION: version}},
        "spec": {"holderIdentity": f"{holder}_1b4e", "leaseDurationSeconds": 15, "renewTime": renewed},
    }


def test_the_version_of_a_leading_replica_of_the_same_replicaset_counts() -> None:
    assert minor_of_leader(lease(), OWN, NOW) == 35


@pytest.mark.parametrize(
    "record",
    [
        lease(OWN),
        lease(OTHER_REVISION),
        lease("worker-2"),
        lease(""),
        lease(age=16),
        lease(version="two"),
        lease(version=["1.35"]),
        {},
        {"metadata": [], "spec": 1},
        {"metadata": {}, "spec": {"holderIdentity": PEER, "leaseDurationSeconds": 15}},
        {**lease(), "spec": {**lease()["spec"], "renewTime": "soon"}},
    ],
    ids=["itself", "former rollout", "a node's name", "released", "expired", "no version", "a list", "new", "odd",
         "unannotated", "undated"],
)  # fmt: skip
def test_nobody_else_s_version_counts(record: Mapping[str, Any]) -> None:
    assert minor_of_leader(record, OWN, NOW) is None


def test_a_host_that_is_no_pod_follows_nobody() -> None:
    assert minor_of_leader(lease("worker-1"), "worker-2", NOW) is None


class ApiServer:
    """Answers with a version and a Lease; an empty version is no answer."""

    def __init__(self, version: str, record: Mapping[str, Any] | None) -> None:
        self._version, self._lease = version, record

    async def get(self, path: str, params: Any = None, *, timeout: float | None = None) -> bytes:
        if path == "/version":
            if not self._version:
                raise api_error("GET", path, 403, b"")
            return json.dumps({"gitVersion": self._version}).encode()
        assert path == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/secondary-scheduler"
        if self._lease is None:
            raise ConnectionFailed("connection refused")
        return json.dumps(self._lease).encode()


@pytest.mark.parametrize(
    ("version", "leaders", "minor"),
    [
        ("v1.36.3", "1.35", 35),
        ("v1.35.4", "1.36", 35),
        ("v1.36.3", "1.36", 36),
        ("v1.36.3", None, 36),
        ("", "1.36", 36),
        ("", None, None),
    ],
)
async def test_the_lower_version_is_followed(
    monkeypatch: pytest.MonkeyPatch, version: str, leaders: str | None, minor: int | None
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: OWN)
    record = lease(version=leaders, now=datetime.now(UTC)) if leaders else None
    client: Any = ApiServer(version, record)
    assert await followed_minor(client, LEASE) == minor


async def test_without_leader_election_no_lease_is_read() -> None:
    client: Any = ApiServer("v1.36.3", lease(now=datetime.now(UTC)))
    assert await followed_minor(client, None) == 36


def test_a_version_that_is_not_known_is_not_reported() -> None:
    assert (cluster_text(36), cluster_text(None)) == ("1.36", None)
