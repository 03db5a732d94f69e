"""What `snapshot --record` writes, and how it ends, on a fake API server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scheduler.kube.client import ClientConfig, Forbidden
from secondary_scheduler.cli.clusterrecording import taking
from secondary_scheduler.cli.clusterrecording.form import EndReason
from secondary_scheduler.cli.clusterrecording.taking import Recorded, RecordingRequest, ending, record
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.privatefile import growing_file
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin
from tests.support.simulating import run
from tests.support.waiting import eventually_on_loop
from tests.unit.scheduler.kube.fake_api import FakeApi, answer, running, status_body

CANARY = "hunter2-canary"
WIDE = 1 << 24


def names_in(directory: Path) -> list[str]:
    return [file.name for file in directory.iterdir()]


class FakeCluster(FakeApi):
    """Nodes, pods and services; other kinds do not exist."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = {plural: FakeApi() for plural in ("nodes", "pods", "services")}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.34.4"})
        kind = self.kinds.get(request.path.removeprefix("/api/v1/"))
        if kind is None:
            return web.Response(status=404, body=status_body(404, "NotFound"))
        return await kind.handle(request)


class Recording:
    """A recording under way, and what it has said and written."""

    def __init__(self, cluster: FakeCluster, file: Path, request: RecordingRequest, origin: LoadOrigin | None) -> None:
        self.cluster = cluster
        self.file = file
        self.said: list[str] = []
        self._request = request
        self._origin = origin
        self.task: asyncio.Task[Recorded] | None = None

    async def start(self) -> None:
        self.task = asyncio.create_task(self._run())
        await eventually_on_loop(lambda: self.file.exists() or (self.task is not None and self.task.done()))
        if self.task.done():
            self.task.result()
        await asyncio.gather(*(kind.opened.wait() for kind in self.cluster.kinds.values()))

    async def interrupt(self) -> Recorded:
        os.kill(os.getpid(), signal.SIGINT)
        assert self.task is not None
        return await self.task

    async def _run(self) -> Recorded:
        config = ClientConfig(server=self.cluster.url)
        with growing_file(self.file, "--file") as target:
            return await record(config, self._origin, target, self._request, self.said.append)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Those that are written as a whole."""
        return [json.loads(line) for line in self.file.read_text().splitlines(keepends=True) if line.endswith("\n")]

    @property
    def happened(self) -> list[tuple[str, str, str]]:
        """Type, kind and name of what was written about objects after the beginning."""
        return [
            (line["type"], line["object"]["kind"], line["object"]["metadata"]["name"])
            for line in self.lines[1:]
            if "object" in line and line["type"] != "SNAPSHOT"
        ]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    fake = FakeCluster()
    async with running(fake):
        yield fake


@asynccontextmanager
async def recording(
    cluster: FakeCluster, directory: Path, *, seconds: float = 600, most: int = WIDE, origin: LoadOrigin | None = None
) -> AsyncIterator[Recording]:
    recorder = Recording(cluster, directory / "cluster.recording", RecordingRequest(seconds, most, 1.0), origin)
    await recorder.start()
    try:
        yield recorder
    finally:
        if recorder.task is not None and not recorder.task.done():
            recorder.task.cancel()
            await asyncio.gather(recorder.task, return_exceptions=True)


async def test_it_holds_the_cluster_as_it_was_and_then_what_happens(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.kinds["nodes"].put("n1", status={"capacity": {"cpu": "4"}})
    cluster.kinds["pods"].put("before")
    async with recording(cluster, tmp_path) as recorder:
        assert recorder.file.stat().st_mode & 0o077 == 0
        cluster.kinds["pods"].put("after", spec={"schedulerName": "mine"})
        cluster.kinds["pods"].put("after", spec={"schedulerName": "mine", "nodeName": "n1"})
        cluster.kinds["pods"].remove("before")
        await eventually_on_loop(lambda: len(recorder.happened) == 3)
        recorded = await recorder.interrupt()
    head, *lines = recorder.lines
    assert (head["kind"], head["formatVersion"], head["gitVersion"]) == ("ClusterRecording", 1, "v1.34.4")
    items = [line["object"] for line in lines if line["type"] == "SNAPSHOT"]
    assert {(item["kind"], item["metadata"]["name"]) for item in items} == {
        ("ClusterVersion", "cluster"),
        ("Node", "n1"),
        ("Pod", "before"),
    }
    assert recorder.happened == [("ADDED", "Pod", "after"), ("MODIFIED", "Pod", "after"), ("DELETED", "Pod", "before")]
    (gone,) = [line["object"] for line in lines if line["type"] == "DELETED"]
    assert gone["metadata"] == {"name": "before", "namespace": "ns", "uid": "uid-before"}
    assert lines[-1]["type"] == "END"
    assert lines[-1]["message"] == "interrupted"
    assert (recorded.reason, recorded.events, recorded.objects) == (EndReason.INTERRUPTED, 3, 3)
    assert recorded.size == recorder.file.stat().st_size
    assert ending(recorded, RecordingRequest(600, WIDE, 60)) == ""


async def test_no_secret_of_an_object_is_in_it(cluster: FakeCluster, tmp_path: Path) -> None:
    container = {
        "name": "c",
        "image": "registry.example/app:v1",
        "command": [CANARY],
        "args": [CANARY],
        "env": [{"name": "TOKEN", "value": CANARY}],
        "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": CANARY}]}},
    }
    pods, nodes = cluster.kinds["pods"], cluster.kinds["nodes"]

    def put(name: str, **spec: Any) -> None:
        metadata = {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": str(pods.version + 1),
            "annotations": {"example.com/note": CANARY, "kubectl.kubernetes.io/last-applied-configuration": CANARY},
            "managedFields": [{"manager": CANARY}],
        }
        status = {"message": CANARY, "podIP": CANARY}
        pods.put(name, metadata=metadata, spec={"containers": [container], **spec}, status=status)

    put("before")
    nodes.put("n1", status={"nodeInfo": {"machineID": CANARY}, "images": []})
    cluster.kinds["services"].put("web", spec={"selector": {"app": "web"}, "externalName": CANARY})
    async with recording(cluster, tmp_path) as recorder:
        put("after")
        put("after", nodeName="n1")
        nodes.put("n1", status={"nodeInfo": {"machineID": CANARY}, "capacity": {"cpu": "2"}})
        await eventually_on_loop(lambda: len(recorder.happened) == 3)
        await recorder.interrupt()
    text = recorder.file.read_text()
    assert "registry.example/app:v1" in text
    assert CANARY not in text


async def test_a_change_of_nothing_that_a_scheduler_reads_is_not_written(cluster: FakeCluster, tmp_path: Path) -> None:
    nodes = cluster.kinds["nodes"]
    nodes.put("n1", status={"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}]})
    async with recording(cluster, tmp_path) as recorder:
        nodes.put("n1", status={"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2"}]})
        nodes.put("n1", status={"conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": "3"}]})
        await eventually_on_loop(lambda: bool(recorder.happened))
        await recorder.interrupt()
    assert recorder.happened == [("MODIFIED", "Node", "n1")]


async def test_it_ends_after_its_duration(cluster: FakeCluster, tmp_path: Path) -> None:
    async with recording(cluster, tmp_path, seconds=0.2) as recorder:
        assert recorder.task is not None
        recorded = await recorder.task
    assert recorded.reason is EndReason.DURATION
    assert recorder.lines[-1]["message"] == "duration"


async def test_at_its_limit_it_ends_and_says_so_and_the_file_is_complete(cluster: FakeCluster, tmp_path: Path) -> None:
    most = 20_000
    async with recording(cluster, tmp_path, most=most) as recorder:
        for number in range(400):
            cluster.kinds["pods"].put(f"pod-{number}")
        assert recorder.task is not None
        recorded = await recorder.task
    assert recorded.reason is EndReason.LIMIT
    assert most - 5000 < recorded.size == recorder.file.stat().st_size <= most
    assert recorder.lines[-1]["message"] == "limit"
    assert "--record-limit: ended after" in ending(recorded, RecordingRequest(600, most, 60))
    numbers = [int(name.removeprefix("pod-")) for _, _, name in recorder.happened]
    assert numbers == list(range(len(numbers)))


async def test_a_cluster_that_is_larger_than_the_limit_leaves_no_file(cluster: FakeCluster, tmp_path: Path) -> None:
    for number in range(100):
        cluster.kinds["pods"].put(f"pod-{number}")
    with pytest.raises(CommandError, match="--record-limit: the cluster as it is takes more than 5000 bytes"):
        async with recording(cluster, tmp_path, most=5000):
            pass
    assert names_in(tmp_path) == []


async def test_a_watch_that_cannot_be_resumed_is_listed_again_and_that_is_said(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    pods = cluster.kinds["pods"]
    for name in ("stays", "goes", "changes"):
        pods.put(name)
    async with recording(cluster, tmp_path) as recorder:

        async def expired(request: web.Request, response: web.StreamResponse) -> None:
            response.set_status(410)
            await response.prepare(request)
            await response.write(status_body(410, "Expired"))

        pods.next_watches.append(expired)
        pods.close_watches()
        await eventually_on_loop(lambda: len(pods.watches) > 1)
        pods.remove("goes", silently=True)
        pods.objects["changes"]["spec"] = {"nodeName": "n1"}
        pods.objects["new"] = {"metadata": {"name": "new", "namespace": "ns", "uid": "uid-new", "resourceVersion": "1"}}
        await eventually_on_loop(lambda: len(recorder.happened) == 3)
        await recorder.interrupt()
    assert sorted(recorder.happened) == [
        ("ADDED", "Pod", "new"),
        ("DELETED", "Pod", "goes"),
        ("MODIFIED", "Pod", "changes"),
    ]
    assert ("RELISTED", "Pod") in [(line["type"], line.get("kind")) for line in recorder.lines[1:]]
    assert any(line.startswith("Pod: listed again; what happened since the watch was lost") for line in recorder.said)


async def test_a_watch_that_is_lost_at_the_end_is_said(cluster: FakeCluster, tmp_path: Path) -> None:
    pods = cluster.kinds["pods"]
    async with recording(cluster, tmp_path) as recorder:
        pods.token = "another"  # every request is refused from now on
        pods.close_watches()
        await eventually_on_loop(lambda: any(line.get("type") == "LOST" for line in recorder.lines))
        recorded = await recorder.interrupt()
    assert recorded.lost
    assert recorded.lost[0].startswith("Pod: ")
    assert "ended while a watch was lost" in ending(recorded, RecordingRequest(600, WIDE, 60))


async def test_pods_that_may_not_be_listed_end_it_before_there_is_a_file(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.kinds["pods"].next_lists = [answer(403, "Forbidden")] * 5
    with pytest.raises(Forbidden):
        async with recording(cluster, tmp_path):
            pass
    assert names_in(tmp_path) == []


async def test_the_load_is_read_again_and_a_source_that_fails_is_said_once(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scheduler.load import LoadError

    answers: list[Any] = [{"n1": 10}, {"n1": 20}, LoadError("refused"), LoadError("refused"), {"n1": 30}]

    def fake_load(origin: Any, node_of_address: Any, say: Any) -> dict[str, Any]:
        content = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(content, Exception):
            raise content
        head = {"apiVersion": "secondary-scheduler.io/v1", "kind": "NodeLoad", "metadata": {"name": "nodes"}}
        return {**head, "data": content}

    monkeypatch.setattr(taking, "read_load_document", fake_load)
    origin = LoadOrigin("https://prometheus.example.com", None, None, None, "15m")
    async with recording(cluster, tmp_path, origin=origin) as recorder:
        await eventually_on_loop(lambda: '"n1":30' in recorder.file.read_text(), 30)
        await recorder.interrupt()
    noted = [
        (line["type"], line.get("kind") or line["object"]["data"]["n1"])
        for line in recorder.lines[1:]
        if "NodeLoad" in str(line)
    ]
    assert noted[:5] == [
        ("SNAPSHOT", 10),
        ("MODIFIED", 20),
        ("LOST", "NodeLoad"),
        ("RESUMED", "NodeLoad"),
        ("MODIFIED", 30),
    ]
    assert recorder.lines[0]["load"] == "Prometheus"
    assert [line for line in recorder.said if line.startswith("load:")] == [
        "load: not read, and tried again: refused",
        "load: read again",
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--record", "2"), "--record: "),
        (("--record", "0s"), "--record: 0s: from 1s to 168h"),
        (("--record", "1h", "-o", "yaml"), "-o: a recording is lines of JSON; leave it out"),
        (("--record", "1h", "--record-limit", "5Gi"), "--record-limit: 5Gi: from 1Mi to 1Gi"),
        (("--record", "1h", "--record-limit", "x"), "--record-limit: "),
        (("--record-limit", "5Mi"), "--record-limit: only with --record"),
        (("--record", "1h", "--load-interval", "5s"), "--load-interval: of a load source"),
    ],
)
def test_options_that_cannot_be_are_refused(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], problem: str
) -> None:
    monkeypatch.delenv("SECONDARY_SCHEDULER_PROMETHEUS_URL", raising=False)
    done = run("snapshot", *arguments)
    assert done.code == 2
    assert problem in done.err
