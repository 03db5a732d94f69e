"""What many preemptors at once cost: `python -m benchmarks preemptors`.

As in the race's scenario Preemption, each node is full with four pods of low priority, and pods of high priority that
need the room of three wait for a node. The whole engine works: queue, decisions, evictions, bindings, Events. The API
server is played in the same process: it answers so many requests a second, one after the other, and its watch shows
what they did. So the figures are the scheduler's own requests, attempts and processor time per preemptor, and how far
it is from keeping such a server busy.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import time
from collections import Counter
from typing import Any

import msgspec
import structlog

from benchmarks.core import PROFILES
from benchmarks.preempting import PER_NODE, full_cluster, pod
from scheduler.config import load_configuration
from scheduler.engine import Engine, EventRecorder, Outputs, Permissions
from scheduler.framework import PodInfo
from scheduler.helpers import PodReducer
from scheduler.kube.model import EventType, PodCondition
from scheduler.observe import LoopWatchdog, Metrics

GC_THRESHOLDS = (50_000, 20, 50)
"""The daemon's, once it has begun."""
_TAKEN = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class PlayedServer:
    """An API server that answers requests one after the other, at a steady rate, and has a watch of pods."""

    def __init__(self, rate: float) -> None:
        self._every = 1 / rate
        self._free_at = 0.0
        self._version = 1
        self._shown: list[tuple[EventType, PodInfo]] = []
        self.pods: dict[str, PodInfo] = {}
        self.requests: Counter[str] = Counter()
        self.bound_at: list[float] = []
        self._bound = asyncio.Event()
        self.engine: Engine | None = None

    def has(self, info: PodInfo) -> None:
        """Let it have a pod, which the watch need not show any more."""
        self.pods[info.name] = info

    async def bindings(self, count: int) -> None:
        """Wait for so many Bindings."""
        while len(self.bound_at) < count:
            self._bound.clear()
            await self._bound.wait()

    async def post(self, path: str, body: Any, **_: Any) -> bytes:
        """Take a Binding or an Event."""
        name = path.split("/")[-2]
        if not path.endswith("/binding"):
            await self._turn(f"POST Event {body['reason']}")
            return _TAKEN
        await self._turn("POST Binding")
        self.bound_at.append(time.perf_counter())
        self._bound.set()
        self._change(name, node_name=body["target"]["name"])
        return _TAKEN

    async def patch(self, path: str, body: Any, *_: Any, **__: Any) -> bytes:
        """Take a new count of an Event, or a pod's condition and nomination."""
        if "/events/" in path:
            await self._turn("PATCH Event")
            return b"{}"
        name, status = path.split("/")[-2], body["status"]
        conditions = tuple(
            PodCondition(each["type"], each["status"], each.get("reason", ""), each.get("message", ""))
            for each in status.get("conditions", ())
        )
        nominated = {"nominated_node": status["nominatedNodeName"] or ""} if "nominatedNodeName" in status else {}
        await self._turn("PATCH status, " + ", ".join(each.type for each in conditions))
        if name in self.pods:
            self._change(name, conditions=conditions or self.pods[name].conditions, **nominated)
        return b"{}"

    async def delete(self, path: str, *_: Any, **__: Any) -> bytes:
        """Delete a pod at once: no kubelet runs it."""
        await self._turn("DELETE pod")
        gone = self.pods.pop(path.split("/")[-1], None)
        if gone is not None:
            self._show(EventType.DELETED, gone)
        return b"{}"

    async def _turn(self, request: str) -> None:
        self.requests[request] += 1
        now = time.perf_counter()
        self._free_at = max(now, self._free_at) + self._every
        await asyncio.sleep(self._free_at - now)

    def _change(self, name: str, **fields: Any) -> None:
        self._version += 1
        changed = msgspec.structs.replace(self.pods[name], resource_version=str(self._version), **fields)
        self.pods[name] = changed
        self._show(EventType.MODIFIED, changed)

    def _show(self, kind: EventType, info: PodInfo) -> None:
        if not self._shown:
            asyncio.get_running_loop().call_soon(self._flush)
        self._shown.append((kind, info))

    def _flush(self) -> None:
        shown, self._shown = self._shown, []
        assert self.engine is not None
        self.engine.pods.apply(shown)


async def measure(nodes: int, count: int, rate: float) -> dict[str, Any]:
    """Return the figures for so many preemptors on so many nodes."""
    server, metrics = PlayedServer(rate), Metrics()
    client: Any = server
    recorder = EventRecorder(client, instance="benchmark")
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- {PROFILES["default"].strip()}
"""
    engine = server.engine = Engine(
        load_configuration(text, source="benchmark", external_load=True),
        Outputs(client, recorder, metrics, LoopWatchdog(60)),
        Permissions(lambda: True, lambda: True),
        rng=random.Random(1),
    )
    filled, reducer = full_cluster(nodes, budgets=False), PodReducer()
    for name in filled.node_names:
        if (info := filled.node(name)) is not None:
            engine.state.upsert_node(info)
    for placed in filled.pods():
        server.has(placed)
        engine.state.upsert_pod(placed)
    preemptors = [pod(reducer, f"high-{index}", 10, 3000) for index in range(count)]
    for each in preemptors:
        server.has(each)
    began, used = time.perf_counter(), time.process_time()
    engine.pods.apply([(EventType.ADDED, each) for each in preemptors])
    task = asyncio.create_task(engine.cycle.run())
    recorder.start()
    await server.bindings(count)
    bound = time.perf_counter() - began
    # What follows the last Binding, Events included, is part of it.
    await recorder.drain(60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    attempts = sum(
        sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "scheduler_schedule_attempts_total"
    )
    return {
        "milliseconds of processor time": round((time.process_time() - used) * 1e3 / count, 3),
        "attempts": round(attempts / count, 2),
        "first binding, s": round(min(server.bound_at) - began, 2),
        "last binding, s": round(bound, 2),
        "last Event, s": round(time.perf_counter() - began, 2),
        "server busy, s": round(sum(server.requests.values()) / rate, 2),
        "requests": {name: round(number / count, 2) for name, number in server.requests.most_common()},
    }


def main() -> None:
    """Print the figures, per preemptor unless a unit stands there."""
    parser = argparse.ArgumentParser(prog="benchmarks preemptors", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000, help=f"each has {PER_NODE} pods")
    parser.add_argument("--pods", type=int, default=500, help="preemptors; fewer than nodes")
    parser.add_argument("--rate", type=float, default=1000.0, help="requests a second that the API server answers")
    options = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(json.dumps(asyncio.run(measure(options.nodes, options.pods, options.rate)), indent=1))


if __name__ == "__main__":
    main()
