"""A fake API server for the engine's tests: takes Bindings, patches and events, and can fail as a test wants."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler.config import load_configuration
from scheduler.engine.decisions import HistoryLimits
from scheduler.engine.engine import Engine as LiveEngine, Outputs, Permissions
from scheduler.engine.extending import Extenders
from scheduler.engine.inputs import NodeUpdate
from scheduler.engine.recorder import EventRecorder
from scheduler.framework import Clocks, PodInfo, WallSeconds
from scheduler.kube.client.errors import api_error
from scheduler.kube.model import EventType, ResourceVersion
from scheduler.observe.health import LoopWatchdog
from scheduler.observe.metrics import Metrics
from tests.support.faketime import monotonic_clock, wall_clock
from tests.unit.scheduler.engine.pods import node_info, pod_info

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: secondary-scheduler
"""


def behaving_as(kubernetes: str, *, plugins: str = "{}", **options: str) -> str:
    """The configuration with a version of kube-scheduler to behave as; `plugins` is the profile's, as YAML."""
    args = json.dumps({"kubernetesVersion": kubernetes, **options})
    config = f"[{{name: SecondarySchedulerOptions, args: {args}}}]"
    return f"{CONFIGURATION}    plugins: {plugins}\n    pluginConfig: {config}\n"


TAKEN = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
"""The API server's answer to a Binding."""


class FakeApi:
    """Remembers what was written. `on_binding` may raise what the client would raise; `pods` answers reads."""

    def __init__(self) -> None:
        self.bindings: list[tuple[str, str, str]] = []
        self.events: list[dict[str, Any]] = []
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.pods: dict[str, dict[str, Any]] = {}
        self.failures: list[Exception | None] = []

    async def post(
        self, path: str, body: Any, allowed: Callable[[], bool] = lambda: True, prepaid: bool = False
    ) -> bytes:
        if path.endswith("/binding"):
            failure = self.failures.pop(0) if self.failures else None
            if failure is not None:
                raise failure
            self.bindings.append((body["metadata"]["name"], body["metadata"]["uid"], body["target"]["name"]))
        else:
            self.events.append(body)
        return TAKEN

    async def patch(
        self, path: str, body: Any, content_type: str = "", allowed: Callable[[], bool] = lambda: True
    ) -> bytes:
        self.patches.append((path, body))
        return b"{}"

    async def delete(self, path: str, body: Any = None, allowed: Callable[[], bool] = lambda: True) -> bytes:
        return b"{}"

    async def get(self, path: str) -> bytes:
        name = path.rsplit("/", 1)[1]
        if name not in self.pods:
            raise api_error("GET", path, 404, b"")
        return json.dumps(self.pods[name]).encode()

    def show(self, name: str, *, node: str = "", uid: str | None = None) -> None:
        """What a read of the pod answers."""
        self.pods[name] = {"metadata": {"uid": uid or f"{name}-uid"}, "spec": {"nodeName": node}}


class Engine(LiveEngine):
    """The engine on a fake API server, driven by hand.

    `leading` says whether it may act; `wall_offset` sets its wall clock, in seconds.
    """

    def __init__(
        self,
        api: FakeApi | None = None,
        configuration: str = CONFIGURATION,
        *,
        extenders: Extenders | None = None,
        history: HistoryLimits | None = None,
    ) -> None:
        self.api = api or FakeApi()
        self.metrics = Metrics()
        self.leading = True
        self.wall_offset = 0.0
        clocks = Clocks(lambda: WallSeconds(wall_clock() + self.wall_offset), monotonic_clock)
        self.recorder = EventRecorder(self.api, instance="host", clocks=clocks)  # type: ignore[arg-type]
        super().__init__(
            load_configuration(configuration, source="test"),
            Outputs(
                self.api,  # type: ignore[arg-type]
                self.recorder,
                self.metrics,
                LoopWatchdog(60),
                extenders=extenders,
                history=history,
            ),
            Permissions(lambda: self.leading, lambda: self.leading),
            clocks=clocks,
            rng=random.Random(1),
        )
        self.handle = next(iter(self.handles.values()))

    def add_node(self, name: str, **fields: Any) -> None:
        self.nodes.apply([(EventType.ADDED, NodeUpdate(node_info(name, **fields), ()))])

    def add_pod(self, name: str, **fields: Any) -> PodInfo:
        pod = pod_info(name, **fields)
        self.pods.apply([(EventType.ADDED, pod)])
        return pod

    def relist_pods(self, *pods: PodInfo) -> None:
        self.pods.replace(pods, ResourceVersion("9"))


@asynccontextmanager
async def started(engine: Engine) -> AsyncIterator[Engine]:
    """An engine whose cycle and recorder run inside the block."""
    engine.recorder.start()
    task = asyncio.create_task(engine.cycle.run())
    try:
        yield engine
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engine.recorder.drain(1)


async def eventually(check: Callable[[], bool], expectation: str, seconds: float = 3.0) -> None:
    """Wait, on the loop's clock, until a check passes; the test fails where it does not in time."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while not check():
        if clock() > deadline:
            pytest.fail(f"not within {seconds:g} s: {expectation}")
        await asyncio.sleep(0.01)
