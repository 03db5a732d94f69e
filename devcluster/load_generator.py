"""Exports what node-exporter would for every node of the cluster, with a load that can be set per node while it runs.

GET /metrics                the series, labelled `instance=<node>`
GET /nodes                  every node with its targets
PUT /nodes/<name>           `{"cpu": 0.85, "memory": 0.5}`, either or both, as fractions;
                            a new node needs its size as well: `cpus` and `memoryBytes`
DELETE /nodes/<name>        its series end, as when an exporter is gone

The load swings a little around its target, differently for every node and the same on every run.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from devcluster.ports import LOOPBACK

_SWING = 0.015
_SWING_PERIOD_SECONDS = 40.0
# How time in a mode is divided; what the recording rules exclude must be there to be excluded.
_SYSTEM_SHARE_OF_BUSY = 0.2
_IOWAIT_SHARE_OF_IDLE = 0.01


class SimulatedLoad(BaseModel):
    """A node's size and target load, as the HTTP interface reads and shows it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    cpus: int = Field(ge=1, le=1024)
    memory_bytes: int = Field(alias="memoryBytes", ge=1)
    cpu: float = Field(ge=0, le=1)
    """Busy fraction of all its processors."""
    memory: float = Field(ge=0, le=1)


class LoadChange(BaseModel):
    """Body of PUT: omitted fields keep their value."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    cpus: int | None = None
    memory_bytes: int | None = Field(default=None, alias="memoryBytes")
    cpu: float | None = None
    memory: float | None = None


@dataclass
class _Meter:
    """The processor counters of one node, advanced whenever they are read or the target changes."""

    load: SimulatedLoad
    phase: float
    at: float
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0

    def cpu_at(self, now: float) -> float:
        swing = min(_SWING, self.load.cpu / 4, (1 - self.load.cpu) / 4)
        return self.load.cpu + swing * math.sin(2 * math.pi * (now / _SWING_PERIOD_SECONDS + self.phase))

    def advance(self, now: float) -> None:
        elapsed = max(0.0, now - self.at)
        busy = self.cpu_at(now) * elapsed
        self.busy_seconds += busy
        self.idle_seconds += elapsed - busy
        self.at = now


class LoadGenerator:
    """The nodes and their counters. Times are seconds of any monotonic clock."""

    def __init__(self, nodes: Mapping[str, SimulatedLoad], now: float) -> None:
        self._meters: dict[str, _Meter] = {}
        for name, load in nodes.items():
            self._meters[name] = self._meter(name, load, now)

    def loads(self) -> dict[str, SimulatedLoad]:
        """Every node's size and targets."""
        return {name: meter.load for name, meter in self._meters.items()}

    def change(self, name: str, change: LoadChange, now: float) -> SimulatedLoad:
        """Set a node's targets from now on; the counters go on from where they are.

        Raises ValidationError for values out of range, and for a new node without its size.
        """
        meter = self._meters.get(name)
        before = meter.load.model_dump(by_alias=True) if meter else {"cpu": 0.0, "memory": 0.0}
        load = SimulatedLoad.model_validate({**before, **change.model_dump(by_alias=True, exclude_none=True)})
        if meter is None:
            self._meters[name] = self._meter(name, load, now)
        else:
            meter.advance(now)
            meter.load = load
        return load

    def remove(self, name: str) -> bool:
        """End a node's series; False when it has none."""
        return self._meters.pop(name, None) is not None

    def exposition(self, now: float) -> str:
        """The series in Prometheus' text format."""
        cpu = ["# TYPE node_cpu_seconds_total counter"]
        total = ["# TYPE node_memory_MemTotal_bytes gauge"]
        available = ["# TYPE node_memory_MemAvailable_bytes gauge"]
        free = ["# TYPE node_memory_MemFree_bytes gauge"]
        for name, meter in self._meters.items():
            meter.advance(now)
            modes = {
                "idle": meter.idle_seconds * (1 - _IOWAIT_SHARE_OF_IDLE),
                "iowait": meter.idle_seconds * _IOWAIT_SHARE_OF_IDLE,
                "system": meter.busy_seconds * _SYSTEM_SHARE_OF_BUSY,
                "user": meter.busy_seconds * (1 - _SYSTEM_SHARE_OF_BUSY),
            }
            for processor in range(meter.load.cpus):
                cpu += [
                    f'node_cpu_seconds_total{{instance="{name}",cpu="{processor}",mode="{mode}"}} {seconds:.6f}'
                    for mode, seconds in modes.items()
                ]
            unused = round(meter.load.memory_bytes * (1 - meter.load.memory))
            total.append(f'node_memory_MemTotal_bytes{{instance="{name}"}} {meter.load.memory_bytes}')
            available.append(f'node_memory_MemAvailable_bytes{{instance="{name}"}} {unused}')
            free.append(f'node_memory_MemFree_bytes{{instance="{name}"}} {unused * 3 // 4}')
        return "\n".join([*cpu, *total, *available, *free, ""])

    @staticmethod
    def _meter(name: str, load: SimulatedLoad, now: float) -> _Meter:
        return _Meter(load, phase=zlib.crc32(name.encode()) / 2**32, at=now)


def application(generator: LoadGenerator) -> web.Application:
    """The HTTP interface."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=generator.exposition(time.monotonic()), content_type="text/plain")

    async def show(_: web.Request) -> web.Response:
        return web.json_response({name: load.model_dump(by_alias=True) for name, load in generator.loads().items()})

    async def change(request: web.Request) -> web.Response:
        try:
            wanted = LoadChange.model_validate_json(await request.read())
            load = generator.change(request.match_info["name"], wanted, time.monotonic())
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in error.errors())
            return web.json_response({"error": problems}, status=400)
        return web.json_response(load.model_dump(by_alias=True))

    async def remove(request: web.Request) -> web.Response:
        return web.Response(status=204 if generator.remove(request.match_info["name"]) else 404)

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/nodes", show)
    app.router.add_put("/nodes/{name}", change)
    app.router.add_delete("/nodes/{name}", remove)
    app.router.add_get("/healthz", healthy)
    return app


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="load-generator")
    parser.add_argument("--nodes", type=Path, required=True, help="JSON file: node name to size and target load")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    nodes = {name: SimulatedLoad.model_validate(load) for name, load in json.loads(arguments.nodes.read_text()).items()}
    app = application(LoadGenerator(nodes, time.monotonic()))
    web.run_app(app, host=LOOPBACK, port=arguments.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
