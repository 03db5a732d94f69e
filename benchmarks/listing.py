"""What a checkout does with what it first reads: the child of `python -m benchmarks lists`, with its own modules.

Imports nothing of `benchmarks`, which would be this checkout's or that one's by chance. Prints as JSON how many
nodes, pods and nodes' loads were taken in, and the seconds of processor time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import structlog

from scheduler.config import load_configuration
from scheduler.engine import Engine, EventRecorder, Outputs, Permissions, reduce_node_update
from scheduler.helpers import PodReducer, salvage_pod
from scheduler.kube.client import Reflector
from scheduler.kube.model import NODES, PODS
from scheduler.load import LoadSettings, load_source
from scheduler.observe import LoopWatchdog, Metrics

LOADS = "loads.json"
_CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
"""


class StoredPages:
    """Pages of a list that are in memory: in place of a `PageReader`, with the position as the token."""

    selectors: dict[str, str] = {}  # noqa: RUF012 - never changed

    def __init__(self, directory: Path, resource: str) -> None:
        self.path = f"/api/v1/{resource}"
        self._pages = [file.read_bytes() for file in sorted(directory.glob(f"{resource}-*.json"))]

    def request_page(self, token: str = "", limit: int = 0) -> asyncio.Future[bytes]:
        """Answer at once."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        answer.set_result(self._pages[int(token or 0)])
        return answer

    def close(self) -> None:
        """Nothing was read ahead."""


async def measure(directory: Path) -> dict[str, float]:
    """List nodes, then pods, into a new engine, as the daemon does; what is counted is decoding, reducing, cache and
    queue. Then import the source of a load-watcher, and decode its answer."""
    client: Any = None
    configuration = load_configuration(_CONFIGURATION, source="benchmark")
    recorder = EventRecorder(client, instance="benchmark")
    engine = Engine(
        configuration,
        Outputs(client, recorder, Metrics(), LoopWatchdog(60)),
        Permissions(lambda: True, lambda: True),
    )
    nodes: Any = StoredPages(directory, "nodes")
    pods: Any = StoredPages(directory, "pods")
    reduce_pod = PodReducer(configuration.profiles[0].kubernetes).reduce
    reflectors: tuple[Reflector[Any, Any], Reflector[Any, Any]] = (
        Reflector(client, nodes, NODES, engine.nodes, reduce_node_update),
        Reflector(client, pods, PODS, engine.pods, reduce_pod, on_page=engine.pods.add_page, salvage=salvage_pod),
    )
    # As the daemon: no collection until the first lists are in.
    gc.disable()
    seconds = []
    for reflector in reflectors:
        began = time.process_time()
        await reflector.refresh()
        seconds.append(time.process_time() - began)
    began = time.process_time()
    load_source("watcher:http://127.0.0.1", LoadSettings(address="http://127.0.0.1"), client).close()
    imported = time.process_time()
    from scheduler.load import parse_watcher

    reading = parse_watcher((directory / LOADS).read_bytes(), "benchmark")
    loads_seconds = time.process_time() - imported
    state = engine.state
    counts = {"nodes": state.node_count, "pods": state.pod_count + sum(engine.queue.counts().values())}
    return {
        **counts,
        "loads": len(reading.loads),
        "nodes_seconds": seconds[0],
        "pods_seconds": seconds[1],
        "loads_seconds": loads_seconds,
        "source_seconds": imported - began,
    }


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(json.dumps(asyncio.run(measure(Path(sys.argv[1])))))
