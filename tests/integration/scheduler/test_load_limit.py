"""The daemon with HighLoadFilter: a hot node gets no pod, and one that waits for it is bound after the refresh that
shows that the node has cooled."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scheduler.framework import NodeLoad
from scheduler.load.watcherformat import watcher_document
from tests.conformance.apiclient import Api
from tests.conformance.controlplane import control_plane_running
from tests.integration.scheduler.preemption import our_daemon
from tests.integration.scheduler.test_smallplugins import LoggedScheduler, node

CPU = "node predicted CPU utilization exceeds the HighLoadFilter threshold"
pytestmark = [pytest.mark.integration]


class Watcher:
    """Answers as a load-watcher does, with loads that a test sets."""

    def __init__(self, loads: dict[str, float]) -> None:
        self.loads = loads
        watcher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = watcher.answer()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self) -> bytes:
        now = time.time()
        loads = {name: NodeLoad(cpu_average=cpu, memory_average=10.0) for name, cpu in self.loads.items()}
        document = watcher_document(
            loads, source="Prometheus", window="15m", window_seconds=900, end=now, timestamp=now
        )
        return json.dumps(document).encode()


@contextlib.contextmanager
def watcher_running(loads: dict[str, float]) -> Iterator[Watcher]:
    watcher = Watcher(loads)
    thread = threading.Thread(target=watcher.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield watcher
    finally:
        watcher.server.shutdown()
        thread.join()
        watcher.server.server_close()


def limited(address: str) -> dict[str, Any]:
    return {
        "plugins": {point: {"enabled": [{"name": "HighLoadFilter"}]} for point in ("preFilter", "filter")},
        "pluginConfig": [
            {"name": "HighLoadFilter", "args": {"watcherAddress": address, "usageThresholds": {"cpu": 60}}},
            {
                "name": "SecondarySchedulerOptions",
                "args": {"load": {"refreshSeconds": 1, "limit": {"whenAllExceed": "reject"}}},
            },
        ],
    }


async def test_a_hot_node_gets_no_pod_until_a_refresh_shows_that_it_has_cooled(tmp_path: Path) -> None:
    with control_plane_running() as plane, watcher_running({"hot": 90.0, "cool": 20.0}) as watcher:
        api = Api(plane)
        for item in (node("hot", "z1"), node("cool", "z2")):
            await api.create(item)
        with our_daemon(plane, tmp_path, limited(watcher.address)) as log:
            stage = LoggedScheduler(api, log)
            try:
                for number in range(3):
                    await stage.pod(f"early-{number}", "any")
                    assert await stage.node_of(f"early-{number}") == "cool"
                await stage.pod("waiting", "any", "z1")
                assert await stage.node_of("waiting") == ""
                condition = await waits_with(api, "waiting")
                assert condition["reason"] == "Unschedulable"
                assert f"{CPU} (90.0%, threshold 60%)" in condition["message"]
                watcher.loads = {"hot": 30.0, "cool": 20.0}
                assert await stage.node_of("waiting", in_the_end=True) == "hot"
            finally:
                await api.close()


async def waits_with(api: Api, name: str) -> dict[str, Any]:
    pod = await api.get({"kind": "Pod", "metadata": {"name": name, "namespace": "default"}})
    return next(entry for entry in pod["status"]["conditions"] if entry["type"] == "PodScheduled")
