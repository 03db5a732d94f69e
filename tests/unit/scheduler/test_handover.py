"""The history of decisions between an old leader and a new one: real HTTPS between both, a fake API server that knows
pods and tokens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from scheduler.catalog import HANDOVER_AUDIENCE, HANDOVER_PATH
from scheduler.engine import DecisionHistory
from scheduler.handover import Handover
from scheduler.kube.client import ApiError, ClientConfig, KubeClient
from scheduler.kube.client.errors import api_error
from scheduler.observe import EndpointSources, GaugeRefresh, Server
from scheduler.observe.health import HealthChecks
from tests.unit.scheduler.engine.test_handedover import START, history, items
from tests.unit.scheduler.observe.ports import free_port, self_signed

OLD, NEW = "s-old", "s-new"


def replica(name: str, *, ending: bool = False, account: str = "s", app: str = "s", **status: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {"app": app}}
    if ending:
        metadata["deletionTimestamp"] = "2026-11-24T10:00:00Z"
    return {
        "metadata": metadata,
        "spec": {"serviceAccountName": account},
        "status": {"phase": "Running", "podIP": "127.0.0.1", **status},
    }


class FakeApi:
    """Has pods; a token is `POD` for the handover's audience, or `api:POD` for the API server's own."""

    config = SimpleNamespace(namespace="ns")

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}

    async def get(self, path: str, params: dict[str, Any] | None = None) -> bytes:
        name = path.rpartition("/")[2]
        if name == "pods":
            app = (params or {})["labelSelector"].removeprefix("app=")
            chosen = [pod for pod in self.pods.values() if pod["metadata"]["labels"]["app"] == app]
            return json.dumps({"items": chosen}).encode()
        if name not in self.pods:
            raise api_error("GET", path, 404, b"{}")
        return json.dumps(self.pods[name]).encode()

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        spec = body["spec"]
        if not path.endswith("tokenreviews"):
            allowed = spec["user"] == "system:serviceaccount:ns:s"
            lease = {"group": "coordination.k8s.io", "resource": "leases", "namespace": "ns", "name": "lease"}
            wanted = {"verb": "update", **lease}
            return json.dumps({"status": {"allowed": allowed and spec["resourceAttributes"] == wanted}}).encode()
        pod = self.pods.get(spec["token"])
        if pod is None or spec.get("audiences") != [HANDOVER_AUDIENCE]:
            return json.dumps({"status": {"authenticated": False}}).encode()
        user = {
            "username": f"system:serviceaccount:ns:{pod['spec']['serviceAccountName']}",
            "extra": {"authentication.kubernetes.io/pod-name": [spec["token"]]},
        }
        return json.dumps({"status": {"authenticated": True, "user": user, "audiences": spec["audiences"]}}).encode()

    async def close(self) -> None:
        pass


class Side:
    """One of the two processes, as far as a hand-over needs it."""

    def __init__(self, api: FakeApi, pod: str, port: int, directory: Path, remembered: DecisionHistory) -> None:
        token = directory / f"{pod}.token"
        token.write_text(pod)
        self.history = remembered
        client: Any = api
        self.handover = Handover(
            client,
            remembered,
            lease=("ns", "lease"),
            pod=pod,
            port=port,
            most=100,
            wall=lambda: START + 200,
            token_file=token,
        )


@asynccontextmanager
async def served(api: FakeApi, side: Side, port: int) -> AsyncIterator[None]:
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    answers = EndpointSources(
        checks=HealthChecks({}, {}, {}),
        registry=CollectorRegistry(),
        gauges=GaugeRefresh(loop, lambda: None),
        make_review_client=lambda: api,
        configz=dict,
        always_allow=("/*",),
        handover=side.handover,
    )
    server = Server(
        address="127.0.0.1",
        port=port,
        make_tls=self_signed,
        answers=answers,
        on_serving=lambda: loop.call_soon_threadsafe(ready.set) and None,
    )
    server.bind()
    server.start()
    await ready.wait()
    try:
        yield
    finally:
        await asyncio.to_thread(server.stop)


@pytest.fixture
def api() -> FakeApi:
    return FakeApi(replica(OLD, ending=True), replica(NEW))


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
async def old(api: FakeApi, port: int, tmp_path: Path) -> AsyncIterator[Side]:
    side = Side(api, OLD, port, tmp_path, history(START, "a", "b"))
    async with served(api, side, port):
        yield side


@pytest.fixture
async def new(api: FakeApi, port: int, tmp_path: Path) -> Side:
    return Side(api, NEW, port, tmp_path, history(START + 50))


async def inherited(side: Side, last_leader: str = OLD) -> str:
    """Ask, and return why there is nothing; "" where there is something."""
    with capture_logs() as logs:
        await side.handover.inherit(last_leader)
    return next((str(line["reason"]) for line in logs if line["event"].endswith("is lost")), "")


@pytest.mark.parametrize("last_leader", [OLD, ""])
async def test_the_new_leader_gets_the_history_and_the_old_one_waits_no_longer(
    old: Side, new: Side, last_leader: str
) -> None:
    offer = asyncio.create_task(old.handover.offer(60))
    assert await inherited(new, last_leader) == ""
    await offer
    assert [(item["pod"], item["decidedBy"]) for item in items(new.history)] == [("ns/b", OLD), ("ns/a", OLD)]


async def test_a_leader_answers_only_once_it_has_stopped_to_lead(old: Side, new: Side) -> None:
    inheriting = asyncio.create_task(inherited(new))
    with pytest.raises(Exception, match="nothing to hand over"):
        old.handover.export()
    offer = asyncio.create_task(old.handover.offer(60))
    assert await inheriting == ""
    await offer
    assert len(new.history) == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda api: api.pods.pop(OLD), f"there is no pod {OLD} any more"),
        (lambda api: api.pods.pop(NEW), "this process is in no pod that the API server knows"),
        (lambda api: api.pods.update({OLD: replica(OLD, account="tenant")}), f"there is no pod {OLD} any more"),
        (lambda api: api.pods.update({OLD: replica(OLD, app="tenant")}), f"there is no pod {OLD} any more"),
        (lambda api: api.pods.update({OLD: replica(OLD, phase="Failed")}), f"there is no pod {OLD} any more"),
    ],
)
async def test_nobody_else_is_asked(api: FakeApi, new: Side, change: Callable[[FakeApi], Any], reason: str) -> None:
    change(api)
    assert await inherited(new) == reason


async def test_a_restart_in_the_same_pod_has_nobody_to_ask(new: Side) -> None:
    assert "the next one in the same pod" in await inherited(new, NEW)


@pytest.mark.parametrize("stolen", [NEW, "made up"])
async def test_whoever_took_over_the_address_cannot_pass_for_the_old_leader(
    old: Side, new: Side, tmp_path: Path, stolen: str
) -> None:
    """It may even have got a token that was sent to it: that is bound to the pod that sent it."""
    offer = asyncio.create_task(old.handover.offer(60))
    (tmp_path / f"{OLD}.token").write_text(stolen)
    assert await inherited(new) == f"{OLD} cannot show that it is this pod"
    offer.cancel()
    assert items(new.history) == []


@pytest.mark.parametrize(("token", "status"), [(None, 403), (f"api:{NEW}", 401), ("tenants", 403), (NEW, 200)])
async def test_only_the_schedulers_own_pods_are_answered_whatever_paths_are_open(
    api: FakeApi, old: Side, port: int, token: str | None, status: int
) -> None:
    api.pods["tenants"] = replica("tenants", account="tenant")
    offer = asyncio.create_task(old.handover.offer(60))
    config = ClientConfig(server=f"https://127.0.0.1:{port}", insecure_skip_tls_verify=True, token=token)
    async with KubeClient(config) as client:
        try:
            answer, received = await client.get(HANDOVER_PATH), 200
        except ApiError as error:
            answer, received = str(error).encode(), error.status
    assert (received, OLD in answer.decode()) == (status, status == 200)
    offer.cancel()


async def test_an_offer_ends_at_once_where_no_other_replica_is_left(api: FakeApi, old: Side) -> None:
    del api.pods[NEW]
    with capture_logs() as logs:
        await old.handover.offer(60)
    assert [line["event"] for line in logs] == ["nobody is there for the history"]


async def test_a_loop_that_is_stuck_does_not_keep_the_thread_of_the_lease(old: Side) -> None:
    with capture_logs() as logs:
        # This thread is the loop's: what it waits for cannot run.
        old.handover.offer_from_thread(0.05)
    assert [line["event"] for line in logs] == ["the history was not offered"]


async def test_an_answer_larger_than_any_history_is_not_read(
    old: Side, new: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.handover._MAX_ANSWER", 10)
    offer = asyncio.create_task(old.handover.offer(60))
    assert await inherited(new) == "its pod does not answer"
    offer.cancel()
    assert len(new.history) == 0
