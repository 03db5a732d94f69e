"""What each write of the scheduler sends, what it takes the answers for, and when it sends nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduler.engine.handle import EngineHandle
from scheduler.framework import Code, Status
from scheduler.kube.client import KubeError, WriteWithheld
from scheduler.kube.client.errors import api_error
from scheduler.kube.model import ObjectMeta, ResourceVersion
from scheduler.kube.model.resource import ResourceClaim
from tests.unit.scheduler.engine.fakes import TAKEN, Engine, FakeApi
from tests.unit.scheduler.engine.pods import pod_info

POD = pod_info("p")
CLAIM = ResourceClaim(metadata=ObjectMeta(name="c", namespace="ns", uid="c-uid", resource_version=ResourceVersion("7")))
PODS, CLAIMS = "/api/v1/namespaces/ns/pods", "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
Write = Callable[[EngineHandle], Awaitable[Any]]
WRITES: dict[str, Write] = {
    "bind": lambda handle: handle.bind(POD, "n"),
    "patch_pod": lambda handle: handle.patch_pod(POD, {"status": {"phase": "Failed"}}, "status"),
    "delete_pod": lambda handle: handle.delete_pod(POD),
    "patch_object": lambda handle: handle.patch_object("ResourceClaim", CLAIM, {"spec": {}}),
    "create_object": lambda handle: handle.create_object("ResourceClaim", "ns", {"metadata": {"name": "c"}}),
    "delete_object": lambda handle: handle.delete_object("ResourceClaim", CLAIM),
}


class RecordingApi(FakeApi):
    """Remembers every write as it is sent; answers with `error` where there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.sent: list[tuple[Any, ...]] = []
        self.allowed: list[Callable[[], bool] | None] = []
        self.answer = json.dumps({"metadata": {"name": "c"}}).encode()
        self.error = error

    def _take(self, *sent: Any, allowed: Callable[[], bool] | None) -> bytes:
        self.sent.append(sent)
        self.allowed.append(allowed)
        if self.error is not None:
            raise self.error
        return self.answer

    async def post(
        self, path: str, body: Any, allowed: Callable[[], bool] | None = None, prepaid: bool = False
    ) -> bytes:
        if path.endswith("/events"):
            return b"{}"
        answer = self._take("POST", path, body, prepaid, allowed=allowed)
        return TAKEN if path.endswith("/binding") else answer

    async def patch(
        self, path: str, body: Any, content_type: str = "", allowed: Callable[[], bool] | None = None
    ) -> bytes:
        return self._take("PATCH", path, body, content_type, allowed=allowed)

    async def delete(self, path: str, body: Any = None, allowed: Callable[[], bool] | None = None) -> bytes:
        return self._take("DELETE", path, body, allowed=allowed)


SENT: dict[str, tuple[Any, ...]] = {
    "bind": (
        "POST",
        f"{PODS}/p/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p", "namespace": "ns", "uid": "p-uid"},
            "target": {"kind": "Node", "name": "n"},
        },
        False,
    ),
    "patch_pod": (
        "PATCH",
        f"{PODS}/p/status",
        {"status": {"phase": "Failed"}, "metadata": {"uid": "p-uid"}},
        "application/strategic-merge-patch+json",
    ),
    "delete_pod": ("DELETE", f"{PODS}/p", {"preconditions": {"uid": "p-uid"}}),
    "patch_object": (
        "PATCH",
        f"{CLAIMS}/c",
        {"spec": {}, "metadata": {"uid": "c-uid", "resourceVersion": "7"}},
        "application/merge-patch+json",
    ),
    "create_object": (
        "POST",
        CLAIMS,
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}},
        False,
    ),
    "delete_object": ("DELETE", f"{CLAIMS}/c", {"preconditions": {"uid": "c-uid"}}),
}


def status_of(answer: Any) -> Status:
    status = answer[0] if isinstance(answer, tuple) else answer
    assert isinstance(status, Status)
    return status


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_names_the_very_object(name: str) -> None:
    api = RecordingApi()
    engine = Engine(api)
    assert status_of(await WRITES[name](engine.handle)).is_success
    assert api.sent == [SENT[name]]
    assert engine.handle.writes_under_way() == 0


@pytest.mark.parametrize("name", WRITES)
async def test_the_client_asks_about_the_lease_right_before_it_sends(name: str) -> None:
    api = RecordingApi()
    engine = Engine(api)
    await WRITES[name](engine.handle)
    (allowed,) = api.allowed
    assert allowed is not None
    assert allowed()
    engine.leading = False
    assert not allowed()


@pytest.mark.parametrize("name", WRITES)
async def test_without_the_lease_nothing_is_sent(name: str) -> None:
    api = RecordingApi()
    engine = Engine(api)
    engine.leading = False
    refused = status_of(await WRITES[name](engine.handle))
    assert (refused.code, refused.error) == (Code.ERROR, "the Lease is no longer held; nothing was written")
    assert api.sent == []


@pytest.mark.parametrize("name", WRITES)
async def test_a_scheduler_that_stops_begins_no_write(name: str) -> None:
    api = RecordingApi()
    engine = Engine(api)
    engine.handle.stop_writing()
    refused = status_of(await WRITES[name](engine.handle))
    assert (refused.code, refused.error) == (Code.ERROR, "the scheduler is stopping; nothing was written")
    assert api.sent == []


@pytest.mark.parametrize("name", [name for name in WRITES if name != "bind"])
@pytest.mark.parametrize(
    ("code", "success", "skip"),
    [
        (403, (), ()),
        (404, ("delete_pod", "delete_object"), ("patch_pod",)),
        (409, ("delete_pod", "delete_object"), ("patch_pod",)),
        (422, (), ()),
        (500, (), ()),
    ],
)
async def test_what_is_gone_is_no_failure_and_a_refusal_is_one(
    name: str, code: int, success: tuple[str, ...], skip: tuple[str, ...]
) -> None:
    engine = Engine(RecordingApi(api_error("PATCH", "/x", code, b"")))
    status = status_of(await WRITES[name](engine.handle))
    assert status.is_success == (name in success)
    assert status.is_skip == (name in skip)
    if status.is_skip:
        assert status.reasons == ("the pod is gone",)
    elif not status.is_success:
        assert status.code is Code.ERROR
        assert str(code) in status.error
    assert engine.handle.writes_under_way() == 0


async def test_a_nomination_of_a_pod_that_is_bound_by_now_is_no_failure() -> None:
    engine = Engine(RecordingApi(api_error("PATCH", "/x", 422, b"")))
    status = await engine.handle.patch_pod(POD, {"status": {"nominatedNodeName": "n"}}, "status")
    assert (status.is_skip, status.reasons) == (True, ("the pod is bound",))


async def test_a_patch_without_a_subresource_goes_to_the_pod_and_keeps_its_metadata() -> None:
    api = RecordingApi()
    await Engine(api).handle.patch_pod(POD, {"metadata": {"annotations": {"a": "b"}}})
    ((_, path, body, _),) = api.sent
    assert (path, body) == (f"{PODS}/p", {"metadata": {"annotations": {"a": "b"}, "uid": "p-uid"}})


async def test_a_status_of_an_object_goes_to_its_subresource_and_keeps_its_metadata() -> None:
    api = RecordingApi()
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {}}
    status, changed = await Engine(api).handle.patch_object("ResourceClaim", CLAIM, patch, "status")
    assert status.is_success
    assert changed.metadata.name == "c"
    ((_, path, body, _),) = api.sent
    assert path == f"{CLAIMS}/c/status"
    assert body["metadata"] == {"labels": {"a": "b"}, "uid": "c-uid", "resourceVersion": "7"}


async def test_an_object_of_the_cluster_has_no_namespace_in_its_path() -> None:
    api = RecordingApi()
    engine = Engine(api)
    volume = ResourceClaim(metadata=ObjectMeta(name="v", uid="v-uid"))
    await engine.handle.patch_object("PersistentVolume", volume, {})
    await engine.handle.delete_object("PersistentVolume", volume)
    await engine.handle.create_object("PersistentVolume", "", {})
    assert [path for _, path, *_ in api.sent] == [
        "/api/v1/persistentvolumes/v",
        "/api/v1/persistentvolumes/v",
        "/api/v1/persistentvolumes",
    ]


@pytest.mark.parametrize("name", ["patch_object", "create_object"])
async def test_an_answer_that_is_not_the_api_servers_leaves_the_outcome_open(name: str) -> None:
    api = RecordingApi()
    api.answer = b"<html>log in</html>"
    status, changed = await WRITES[name](Engine(api).handle)
    assert (type(status).__name__, changed) == ("UnknownOutcome", None)


@pytest.mark.parametrize(("code", "kind"), [(403, "NotFound"), (504, "UnknownOutcome")])
async def test_only_a_failure_that_tells_nothing_leaves_the_outcome_of_a_creation_open(code: int, kind: str) -> None:
    engine = Engine(RecordingApi(api_error("POST", "/x", code, b"")))
    status, _ = await WRITES["create_object"](engine.handle)
    assert (type(status).__name__ == "UnknownOutcome") == (kind == "UnknownOutcome")


@pytest.mark.parametrize(
    ("error", "counted", "says"),
    [
        (api_error("POST", "/x", 404, b""), "gone", "the pod is gone"),
        (api_error("POST", "/x", 403, b""), "failed", "403"),
        (WriteWithheld("POST /x: not sent"), "failed", "not sent"),
    ],
)
async def test_a_binding_that_is_refused_is_counted_and_not_looked_up(
    error: KubeError, counted: str, says: str
) -> None:
    api = RecordingApi(error)
    engine = Engine(api)
    status = status_of(await WRITES["bind"](engine.handle))
    assert status.code is Code.ERROR
    assert says in status.error
    assert len(api.sent) == 1
    assert engine.metrics.bindings.labels(counted).value == 1


async def test_a_defect_leaves_the_outcome_of_a_binding_open_and_the_pod_is_looked_up() -> None:
    api = RecordingApi(RuntimeError("a defect"))
    api.show("p", node="n")
    engine = Engine(api)
    assert status_of(await WRITES["bind"](engine.handle)).is_success
    assert engine.metrics.bindings.labels("unknown").value == 1


async def test_a_scheduler_that_stops_looks_up_a_binding_whose_answer_is_missing() -> None:
    class Silent(RecordingApi):
        async def post(self, path: str, body: Any, allowed: Any = None, prepaid: bool = False) -> bytes:
            sent.set()
            await asyncio.Event().wait()
            raise AssertionError

    sent = asyncio.Event()
    api = Silent()
    api.show("p", node="n")
    engine = Engine(api)
    binding = asyncio.create_task(engine.handle.bind(POD, "n"))
    await sent.wait()
    assert engine.handle.writes_under_way() == 1
    engine.handle.stop_writing()
    assert (await binding).is_success
    assert engine.metrics.bindings.labels("unknown").value == 1
    assert engine.handle.writes_under_way() == 0
