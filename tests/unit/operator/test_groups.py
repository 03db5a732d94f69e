"""The controllers of PodGroups and ElasticQuotas: which pods they count, what they write, what they leave alone.

The API server is a recorder; watches bring what a test says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from scheduler.catalog import STATUS_KINDS
from scheduler.kube.client import Conflict, Forbidden, WriteWithheld
from scheduler.kube.model import POD_GROUP_LABEL, EventType, Pod, ResourceVersion
from secondary_scheduler.operator.groups import KINDS
from secondary_scheduler.operator.groups.objects import ReducedPod
from secondary_scheduler.operator.groups.status import (
    ELASTIC_QUOTAS,
    POD_GROUPS,
    StatusController,
    status_controllers,
)
from secondary_scheduler.operator.metrics import OperatorMetrics
from secondary_scheduler.operator.options import parse_options


class Server:
    """Takes the place of KubeClient: merges patches of a status."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.error: Exception | None = None

    async def patch(self, path: str, body: dict[str, Any], allowed: Callable[[], bool] | None = None) -> bytes:
        if allowed is not None and not allowed():
            raise WriteWithheld("not sent")
        self.patches.append((path, body))
        if self.error is not None:
            raise self.error
        obj = self.objects[path.rpartition("/")[0]]
        for name, value in body["status"].items():
            status = obj.setdefault("status", {})
            if isinstance(value, dict):
                status[name] = {key: text for key, text in {**status.get(name, {}), **value}.items() if text}
            else:
                status[name] = value
        obj["metadata"]["resourceVersion"] = str(int(obj["metadata"]["resourceVersion"]) + 1)
        return json.dumps(obj).encode()


class Watched:
    """One controller with its watches in the test's hand."""

    def __init__(self, kind: Any) -> None:
        self.server = Server()
        self.metrics = OperatorMetrics("1")
        self.controller: StatusController[Any, Any] = StatusController(self.server, kind, self.metrics)  # type: ignore[arg-type]
        self.kind = kind
        self._version = 100

    def add(self, namespace: str, name: str, spec: dict[str, Any], **fields: Any) -> None:
        self._version += 1
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "resourceVersion": str(self._version),
            "creationTimestamp": fields.pop("created", ""),
        }
        data = {"metadata": metadata, "spec": spec, "status": fields}
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/{self.kind.plural}/{name}"
        self.server.objects[path] = data
        self.controller._objects.apply([(EventType.ADDED, self.kind.codec.decode(json.dumps(data).encode()))])

    def pod(self, namespace: str, name: str, phase: str, group: str = "", *, gone: bool = False, **spec: Any) -> None:
        self._version += 1
        labels = {POD_GROUP_LABEL: group} if group else {}
        data = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{namespace}/{name}",
                "labels": labels,
                "resourceVersion": str(self._version),
            },
            "spec": spec,
            "status": {"phase": phase},
        }
        pod = msgspec.convert(data, Pod)
        seen = ReducedPod(pod.metadata, self.kind.group_of(pod), self.kind.reduce(pod))
        self.controller._pods.apply([(EventType.DELETED if gone else EventType.MODIFIED, seen)])

    def reconcile(self, namespace: str, group: str) -> None:
        asyncio.run(self.controller.reconcile((namespace, group)))

    def status(self, namespace: str, name: str) -> dict[str, Any]:
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/{self.kind.plural}/{name}"
        return dict(self.server.objects[path]["status"])


@pytest.fixture
def groups() -> Watched:
    return Watched(POD_GROUPS)


@pytest.fixture
def quotas() -> Watched:
    return Watched(ELASTIC_QUOTAS)


def test_a_group_counts_the_pods_of_its_own_namespace(groups: Watched) -> None:
    groups.add("a", "g", {"minMember": 1}, phase="Scheduling")
    groups.add("b", "g", {"minMember": 1}, phase="Scheduling")
    groups.pod("a", "p", "Running", "g")
    groups.pod("a", "q", "Running", "other")
    for namespace in "ab":
        groups.reconcile(namespace, "g")
    assert groups.status("a", "g") == {"phase": "Running", "running": 1}
    # Upstream counts the pod of namespace a here as well.
    assert groups.status("b", "g") == {"phase": "Pending"}


def test_one_change_leads_to_the_next_step(groups: Watched) -> None:
    groups.add("a", "g", {"minMember": 1})
    groups.pod("a", "p", "Running", "g")
    for phase in ("Pending", "Scheduling", "Running"):
        groups.reconcile("a", "g")
        assert groups.status("a", "g")["phase"] == phase
    groups.reconcile("a", "g")
    assert len(groups.server.patches) == 3, "nothing more to say"
    assert 'kind="PodGroup",outcome="ok",verb="patch_status"} 3.0' in groups.metrics.expose().decode()


def test_a_write_is_bound_to_the_version_that_was_looked_at(groups: Watched) -> None:
    groups.add("a", "g", {"minMember": 1})
    groups.reconcile("a", "g")
    path, body = groups.server.patches[0]
    assert path.endswith("/namespaces/a/podgroups/g/status")
    assert body == {"metadata": {"uid": "a/g", "resourceVersion": "101"}, "status": {"phase": "Pending"}}


def test_a_pod_that_changes_its_group_counts_where_it_is_now(groups: Watched) -> None:
    groups.add("a", "one", {"minMember": 1}, phase="Running", running=1)
    groups.add("a", "two", {"minMember": 1}, phase="Pending")
    groups.pod("a", "p", "Running", "one")
    groups.pod("a", "p", "Running", "two")
    groups.reconcile("a", "one")
    groups.reconcile("a", "two")
    assert (groups.status("a", "one")["phase"], groups.status("a", "two")["phase"]) == ("Pending", "Scheduling")


def test_a_quota_adds_up_the_running_pods_of_its_namespace(quotas: Watched) -> None:
    quotas.add("a", "q", {"min": {"cpu": "1"}, "max": {"memory": "1Gi"}})
    container = {"name": "c", "resources": {"requests": {"cpu": "1500m"}}}
    quotas.pod("a", "p", "Running", containers=[container], overhead={"cpu": "100m"})
    quotas.pod("b", "q", "Running", containers=[container])
    quotas.reconcile("a", "")
    assert quotas.status("a", "q") == {"used": {"cpu": "1600m", "memory": "0"}}
    quotas.pod("a", "p", "Succeeded", gone=True, containers=[container])
    quotas.reconcile("a", "")
    assert quotas.status("a", "q") == {"used": {"cpu": "0", "memory": "0"}}


def test_what_is_used_no_more_and_not_named_disappears(quotas: Watched) -> None:
    quotas.add("a", "q", {}, used={"cpu": "1", "example.com/gpu": "1"})
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    quotas.pod("a", "p", "Running", containers=[container])
    quotas.reconcile("a", "")
    assert quotas.server.patches[0][1]["status"] == {"used": {"cpu": "1", "example.com/gpu": None}}


def test_of_several_quotas_the_one_that_the_scheduler_follows_is_reported(quotas: Watched) -> None:
    quotas.add("a", "young", {"min": {"cpu": "1"}}, created="2026-02-01T00:00:00Z")
    quotas.add("a", "old", {"min": {"cpu": "1"}}, created="2026-01-01T00:00:00Z")
    quotas.reconcile("a", "")
    assert [path.split("/")[-2] for path, _ in quotas.server.patches] == ["old"]


@pytest.mark.parametrize("kind", [Conflict, Forbidden])
def test_a_refused_write_is_counted_and_only_a_conflict_waits_for_the_watch(groups: Watched, kind: Any) -> None:
    groups.add("a", "g", {"minMember": 1})
    groups.server.error = kind("no", status=409 if kind is Conflict else 403, reason="x", message="no")
    if kind is Conflict:
        groups.reconcile("a", "g")
    else:
        with pytest.raises(Forbidden):
            groups.reconcile("a", "g")
    text = groups.metrics.expose().decode()
    outcome = "conflict" if kind is Conflict else "403"
    assert f'kind="PodGroup",outcome="{outcome}",verb="patch_status"' in text


def test_no_status_is_written_by_an_operator_without_its_lease(groups: Watched) -> None:
    groups.controller._leads = lambda: False
    groups.add("a", "g", {"minMember": 1})
    with pytest.raises(WriteWithheld):
        groups.reconcile("a", "g")
    assert groups.server.patches == []
    assert 'kind="PodGroup",outcome="not_sent",verb="patch_status"} 1.0' in groups.metrics.expose().decode()


def test_an_object_that_is_gone_is_no_work(groups: Watched) -> None:
    groups.add("a", "g", {"minMember": 1})
    groups.controller._objects.replace([], ResourceVersion("200"))
    groups.reconcile("a", "g")
    assert not groups.server.patches


def test_an_option_switches_them_off(capsys: pytest.CaptureFixture[str]) -> None:
    def names(*arguments: str) -> list[str]:
        options = parse_options(arguments, {})
        return [controller.name for controller in status_controllers(Server(), options.status_of, OperatorMetrics("1"))]  # type: ignore[arg-type]

    assert names() == ["podgroups", "elasticquotas"]
    assert names("--status-of", "elasticquotas") == ["elasticquotas"]
    assert names("--status-of", "none") == []
    with pytest.raises(SystemExit):
        names("--status-of", "jobs")
    assert "not known: jobs; podgroups, elasticquotas or none" in capsys.readouterr().err


def test_the_install_and_the_operator_speak_of_the_same_kinds():
    assert tuple(KINDS) == STATUS_KINDS
