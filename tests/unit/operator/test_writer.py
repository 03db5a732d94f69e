"""What each write of the operator sends, how it is counted, and what it takes the answers for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.kube.client import KubeError, WriteWithheld
from scheduler.kube.client.errors import api_error
from scheduler.kube.model import Unstructured
from secondary_scheduler.operator.metrics import OperatorMetrics
from secondary_scheduler.operator.reconcile import Apply, Delete, EventDraft, Json, ObjectKey, SetFinalizers
from secondary_scheduler.operator.writer import Writer

API = "operator.openshift.io/v1"
INSTANCE: Json = {
    "apiVersion": API,
    "kind": "SecondaryScheduler",
    "metadata": {"name": "cluster", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
}
BINDING: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "b"},
    "roleRef": {"name": "secondary-scheduler:base"},
}
INSTANCE_PATH = "/apis/operator.openshift.io/v1/namespaces/ns/secondaryschedulers/cluster"
BINDING_PATH = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/b"
ROLE = ObjectKey("Role", "ns", "r")
APPLIED = {"fieldManager": "secondary-scheduler-operator", "force": "true"}
Write = Callable[[Writer], Awaitable[Any]]


def allowed() -> bool:
    return True


class Client:
    """Takes the place of KubeClient: remembers what is sent, and answers with an object or a failure."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.error = error

    async def patch(
        self, path: str, body: Any, params: Any = None, *, content_type: str = "merge", allowed: Any = None
    ) -> bytes:
        return self._take("PATCH", path, body, params, content_type, allowed)

    async def post(self, path: str, body: Any, *, allowed: Any = None) -> bytes:
        return self._take("POST", path, body, allowed)

    async def delete(self, path: str, body: Any, *, allowed: Any = None) -> bytes:
        return self._take("DELETE", path, body, allowed)

    def _take(self, *sent: Any) -> bytes:
        self.sent.append(sent)
        if self.error is not None:
            raise self.error
        return json.dumps({"metadata": {"name": "answered"}}).encode()


def writer(client: Client) -> tuple[Writer, OperatorMetrics]:
    def record(key: ObjectKey, answer: Unstructured) -> Json:
        return {"key": key, "name": answer.metadata.name}

    metrics = OperatorMetrics("1")
    return Writer(client, metrics, record), metrics  # type: ignore[arg-type]


def counts(metrics: OperatorMetrics) -> list[str]:
    lines = metrics.expose().decode().splitlines()
    return [line.partition("writes_total")[2] for line in lines if "writes_total{" in line]


async def test_an_object_is_applied_as_the_operators_and_the_answer_recorded() -> None:
    client = Client()
    writing, metrics = writer(client)
    answer = await writing.execute(Apply(BINDING), allowed)
    assert answer == {"key": ObjectKey("ClusterRoleBinding", "", "b"), "name": "answered"}
    assert client.sent == [("PATCH", BINDING_PATH, BINDING, APPLIED, "application/apply-patch+yaml", allowed)]
    assert counts(metrics) == ['{kind="ClusterRoleBinding",outcome="ok",verb="apply"} 1.0']


async def test_exactly_the_object_that_was_seen_is_deleted() -> None:
    client = Client()
    writing, metrics = writer(client)
    assert await writing.execute(Delete(ROLE, "r-uid", "why"), allowed) is None
    options = {"preconditions": {"uid": "r-uid"}, "propagationPolicy": "Background"}
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles/r"
    assert client.sent == [("DELETE", path, options, allowed)]
    assert counts(metrics) == ['{kind="Role",outcome="ok",verb="delete"} 1.0']


async def test_what_is_gone_needs_no_deletion_and_a_namesake_is_a_conflict() -> None:
    writing, metrics = writer(Client(api_error("DELETE", "/x", 404, b"")))
    assert await writing.execute(Delete(ROLE, "r-uid", "why")) is None
    assert counts(metrics) == ['{kind="Role",outcome="404",verb="delete"} 1.0']
    writing, _ = writer(Client(api_error("DELETE", "/x", 409, b"")))
    with pytest.raises(KubeError):
        await writing.execute(Delete(ROLE, "r-uid", "why"))


async def test_finalizers_are_set_on_the_version_that_was_seen() -> None:
    client = Client()
    writing, metrics = writer(client)
    key = ObjectKey("SecondaryScheduler", "ns", "cluster")
    assert await writing.execute(SetFinalizers(key, ("f",), "7"), allowed) == {"key": key, "name": "answered"}
    body = {"metadata": {"finalizers": ["f"], "resourceVersion": "7"}}
    assert client.sent == [("PATCH", INSTANCE_PATH, body, None, "merge", allowed)]
    assert counts(metrics) == ['{kind="SecondaryScheduler",outcome="ok",verb="patch"} 1.0']


async def test_a_status_goes_to_the_instance_of_this_uid_alone() -> None:
    client = Client()
    writing, metrics = writer(client)
    await writing.write_status(INSTANCE, {"conditions": []}, allowed)
    metadata = {"name": "cluster", "namespace": "ns", "uid": "u"}
    body = {"apiVersion": API, "kind": "SecondaryScheduler", "metadata": metadata, "status": {"conditions": []}}
    path = f"{INSTANCE_PATH}/status"
    assert client.sent == [("PATCH", path, body, APPLIED, "application/apply-patch+yaml", allowed)]
    assert counts(metrics) == ['{kind="SecondaryScheduler",outcome="ok",verb="apply_status"} 1.0']


@pytest.mark.parametrize(("warning", "kind"), [(True, "Warning"), (False, "Normal")])
async def test_an_event_is_about_the_instance_and_its_text_is_cut(warning: bool, kind: str) -> None:
    client = Client()
    writing, metrics = writer(client)
    now = datetime(2026, 11, 29, 8, 5, 1, tzinfo=UTC)
    await writing.send_event(INSTANCE, EventDraft("Refused", "x" * 2000, warning), now, allowed)
    involved = {"name": "cluster", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    event = {
        "metadata": {"generateName": "cluster-", "namespace": "ns"},
        "involvedObject": {"apiVersion": API, "kind": "SecondaryScheduler", **involved},
        "type": kind,
        "reason": "Refused",
        "message": "x" * 1024,
        "source": {"component": "secondary-scheduler-operator"},
        "reportingComponent": "secondary-scheduler-operator",
        "firstTimestamp": "2026-11-29T08:05:01Z",
        "lastTimestamp": "2026-11-29T08:05:01Z",
        "count": 1,
    }
    assert client.sent == [("POST", "/api/v1/namespaces/ns/events", event, allowed)]
    assert counts(metrics) == ['{kind="Event",outcome="ok",verb="create"} 1.0']


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (WriteWithheld("not sent"), "not_sent"),
        (api_error("PATCH", "/x", 403, b""), "403"),
        (KubeError("the connection broke"), "no_answer"),
    ],
)
async def test_a_failed_write_is_raised_and_counted_by_what_became_of_it(error: Exception, outcome: str) -> None:
    writing, metrics = writer(Client(error))
    with pytest.raises(KubeError) as raised:
        await writing.execute(Apply(BINDING))
    assert raised.value is error
    assert counts(metrics) == [f'{{kind="ClusterRoleBinding",outcome="{outcome}",verb="apply"}} 1.0']
