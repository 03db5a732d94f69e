"""What the self-test makes and removes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli.selftest.objects import (
    CLUSTER_KINDS,
    LABEL,
    PREFIX,
    Names,
    OwnCluster,
    needed_rights,
    scaffold,
)

NAMES = Names("a1b2c3")


class FakeConnection:
    """A fake: lists of one page, and deletions that succeed."""

    def __init__(self, names: Mapping[str, list[str]]) -> None:
        self._names = names
        self.deleted: list[str] = []
        self.selectors: set[str] = set()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> bytes:
        self.selectors.add(str((params or {}).get("labelSelector")))
        names = self._names.get(path.rpartition("/")[2], [])
        return msgspec.json.encode({"metadata": {}, "items": [{"metadata": {"name": name}} for name in names]})

    def request(self, method: str, path: str, **_: object) -> bytes:
        self.deleted.append(f"{method} {path}")
        return b"{}"


def own_cluster(connection: FakeConnection, monkeypatch: pytest.MonkeyPatch) -> OwnCluster:
    cluster = OwnCluster(ClientConfig(server="https://cluster.example"), NAMES)
    monkeypatch.setattr(cluster, "connection", connection)
    return cluster


def test_all_it_makes_has_its_label_and_what_is_cluster_scoped_its_prefix() -> None:
    made = scaffold(NAMES, ("system:kube-scheduler",))
    assert {item["metadata"]["labels"][LABEL] for item in made} == {"a1b2c3"}
    outside = [item["metadata"]["name"] for item in made if "namespace" not in item["metadata"]]
    assert len(outside) >= len(CLUSTER_KINDS)
    assert all(name.startswith(f"{PREFIX}a1b2c3") for name in outside)


def test_its_scheduler_may_preempt_pods_of_the_self_test_only() -> None:
    classes = {item["metadata"]["name"]: item["value"] for item in scaffold(NAMES, ()) if "value" in item}
    assert classes[NAMES.low] < classes[NAMES.high] < -900_000_000


def test_rights_to_make_and_remove_every_kind_are_asked_for() -> None:
    rights = {str(right) for right in needed_rights(scaffold(NAMES, ()))}
    for kind in CLUSTER_KINDS:
        group = kind.api_version.partition("/")[0] if "/" in kind.api_version else ""
        for verb in ("create", "delete"):
            assert f"{verb} {kind.resource}{f'.{group}' if group else ''}" in rights
    assert "create serviceaccounts/token" in rights


def test_only_what_has_the_label_and_the_prefix_is_a_leftover(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = FakeConnection({"namespaces": [f"{PREFIX}old", "production"], "clusterroles": ["cluster-admin"]})
    cluster = own_cluster(connection, monkeypatch)
    assert [name for _, name in cluster.leftovers()] == [f"{PREFIX}old"]
    assert connection.selectors == {LABEL}
