"""What the self-test makes and removes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from scheduler.kube.client import ApiError, ClientConfig, NotFound
from secondary_scheduler.cli.selftest.objects import (
    CLUSTER_KINDS,
    LABEL,
    PREFIX,
    Names,
    OwnCluster,
    Right,
    needed_rights,
    scaffold,
)

NAMES = Names("a1b2c3")


class FakeConnection:
    """A fake: lists of one page, and one answer to what is written."""

    def __init__(self, names: Mapping[str, list[str]]) -> None:
        self._names = names
        self.sent: list[tuple[str, str, Any]] = []
        self.answer: dict[str, Any] | Exception = {}
        self.selectors: set[str] = set()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> bytes:
        self.selectors.add(str((params or {}).get("labelSelector")))
        names = self._names.get(path.rpartition("/")[2], [])
        return msgspec.json.encode(
            {"metadata": {}, "items": [{"metadata": {"name": name, "uid": f"uid of {name}"}} for name in names]}
        )

    def request(self, method: str, path: str, *, body: object = None) -> bytes:
        self.sent.append((method, path, body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return msgspec.json.encode(self.answer)


def own_cluster(connection: FakeConnection, monkeypatch: pytest.MonkeyPatch) -> OwnCluster:
    cluster = OwnCluster(ClientConfig(server="https://cluster.example"), NAMES)
    monkeypatch.setattr(cluster, "connection", connection)
    return cluster


def test_all_it_makes_has_its_label_and_what_is_cluster_scoped_its_prefix() -> None:
    objects = scaffold(NAMES, ("system:kube-scheduler",))
    assert {item["metadata"]["labels"][LABEL] for item in objects} == {"a1b2c3"}
    outside = [item["metadata"]["name"] for item in objects if "namespace" not in item["metadata"]]
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
    assert [leftover.name for leftover in cluster.leftovers()] == [f"{PREFIX}old"]
    assert connection.selectors == {LABEL}


def test_what_is_removed_is_the_object_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = FakeConnection({"clusterroles": [f"{PREFIX}old"]})
    cluster = own_cluster(connection, monkeypatch)
    assert cluster.remove(cluster.leftovers(), lambda line: None) == []
    ((method, path, options),) = connection.sent
    assert (method, path.rpartition("/")[2]) == ("DELETE", f"{PREFIX}old")
    assert options["preconditions"] == {"uid": f"uid of {PREFIX}old"}


def test_what_is_gone_is_removed_and_a_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = FakeConnection({"clusterroles": [f"{PREFIX}old"]})
    cluster = own_cluster(connection, monkeypatch)
    connection.answer = NotFound("gone", status=404, reason="NotFound", message="gone")
    assert cluster.remove(cluster.leftovers(), lambda line: None) == []
    connection.answer = ApiError("broken", status=500, reason="InternalError", message="broken")
    (left,) = cluster.remove(cluster.leftovers(), lambda line: None)
    assert left.startswith(f"ClusterRole {PREFIX}old: ")


def test_a_pod_of_the_run_is_created_in_its_namespace_and_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = FakeConnection({})
    cluster = own_cluster(connection, monkeypatch)
    cluster.create_here("Pod", "first", {"spec": {}}, {"a": "b"})
    cluster.end_pod("first")
    (posted, created, pod), (method, ended, options) = connection.sent
    assert posted == "POST"
    assert created == f"/api/v1/namespaces/{NAMES.namespace}/pods"
    assert pod["metadata"]["labels"] == {LABEL: "a1b2c3", "a": "b"}
    assert (method, ended, options) == ("DELETE", f"{created}/first", {"gracePeriodSeconds": 0})


@pytest.mark.parametrize("allowed", [True, False])
def test_a_right_is_missing_unless_the_api_server_says_that_it_is_there(
    allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = FakeConnection({})
    cluster = own_cluster(connection, monkeypatch)
    connection.answer = {"status": {"allowed": allowed}}
    right = Right("create", "", "serviceaccounts", subresource="token")
    assert cluster.missing([right]) == ([] if allowed else [right])
    assert connection.sent[0][2] == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {"verb": "create", "resource": "serviceaccounts", "subresource": "token"},
        },
    }


def test_the_token_is_of_the_runs_own_account(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = FakeConnection({})
    cluster = own_cluster(connection, monkeypatch)
    connection.answer = {"status": {"token": "a token"}}
    assert cluster.token(600) == "a token"
    ((_, path, request),) = connection.sent
    assert path == f"/api/v1/namespaces/{NAMES.namespace}/serviceaccounts/scheduler/token"
    assert request["spec"]["expirationSeconds"] == 600
