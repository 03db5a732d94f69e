"""Exports what node-exporter would for every node of the cluster, with a load that can be set per node while it runs.

It can follow the pods of a cluster: a node's load is then what was set and what the pods that are bound to it use
(`pod_loads`), and the same is served as a metrics server would (`metrics_server`) and as cAdvisor would.

GET /metrics                the series, labelled `instance=<node>`
GET /nodes                  every node with its targets
PUT /nodes/<name>           `{"cpu": 0.85, "memory": 0.5}`, either or both, as fractions;
                            a new node needs its size as well: `cpus` and `memoryBytes`
DELETE /nodes/<name>        its series end, as when an exporter is gone

The load swings a little around its target, differently for every node and the same on every run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from devcluster import metrics_server
from devcluster.errors import ServiceError, SpecError
from devcluster.pod_loads import ContainerSeries, PodUses, Use
from devcluster.ports import LOOPBACK
from scheduler.kube.client import ClientConfig, KubeClient, Reflector, unchanged
from scheduler.kube.model import UnstructuredCodec

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
class _NodeMeter:
    """The processor counters of one node, advanced whenever they are read or the target changes."""

    load: SimulatedLoad
    phase: float
    at: float
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    pods: Use = field(default_factory=Use)

    @property
    def cpu(self) -> float:
        """Busy fraction; pods that would use more than there is share what there is."""
        return min(1.0, self.load.cpu + self.pods.cpu / self.load.cpus)

    @property
    def memory(self) -> float:
        return min(1.0, self.load.memory + self.pods.memory / self.load.memory_bytes)

    def cpu_at(self, now: float) -> float:
        swing = min(_SWING, self.cpu / 4, (1 - self.cpu) / 4)
        return self.cpu + swing * math.sin(2 * math.pi * (now / _SWING_PERIOD_SECONDS + self.phase))

    def advance(self, now: float) -> None:
        elapsed = max(0.0, now - self.at)
        busy = self.cpu_at(now) * elapsed
        self.busy_seconds += busy
        self.idle_seconds += elapsed - busy
        self.at = now


class LoadGenerator:
    """The nodes and their counters. Times are seconds of any monotonic clock."""

    def __init__(self, nodes: Mapping[str, SimulatedLoad], now: float) -> None:
        self._meters: dict[str, _NodeMeter] = {}
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

    def show_pods(self, uses: Mapping[str, Use], now: float) -> None:
        """Let the pods of each node use this from now on, on top of its targets; those of other nodes nothing."""
        for name, meter in self._meters.items():
            use = uses.get(name, Use())
            if use != meter.pods:
                meter.advance(now)
                meter.pods = use

    def uses(self, now: float) -> dict[str, Use]:
        """What is in use on every node, its pods included: cores and bytes."""
        return {
            name: Use(meter.cpu_at(now) * meter.load.cpus, meter.memory * meter.load.memory_bytes)
            for name, meter in self._meters.items()
        }

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
            unused = round(meter.load.memory_bytes * (1 - meter.memory))
            total.append(f'node_memory_MemTotal_bytes{{instance="{name}"}} {meter.load.memory_bytes}')
            available.append(f'node_memory_MemAvailable_bytes{{instance="{name}"}} {unused}')
            free.append(f'node_memory_MemFree_bytes{{instance="{name}"}} {unused * 3 // 4}')
        return "\n".join([*cpu, *total, *available, *free, ""])

    @staticmethod
    def _meter(name: str, load: SimulatedLoad, now: float) -> _NodeMeter:
        return _NodeMeter(load, phase=zlib.crc32(name.encode()) / 2**32, at=now)


def application(generator: LoadGenerator, uses: PodUses | None = None) -> web.Application:
    """The HTTP interface; with the series of pods, if there are any."""
    pods, containers = uses or PodUses(), ContainerSeries()

    async def metrics(_: web.Request) -> web.Response:
        now = time.monotonic()
        text = generator.exposition(now) + (containers.exposition(pods.pods, now) if pods.pods else "")
        return web.Response(text=text, content_type="text/plain")

    async def show(_: web.Request) -> web.Response:
        return web.json_response({name: load.model_dump(by_alias=True) for name, load in generator.loads().items()})

    async def change(request: web.Request) -> web.Response:
        try:
            change = LoadChange.model_validate_json(await request.read())
            load = generator.change(request.match_info["name"], change, time.monotonic())
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


def follow_pods(
    app: web.Application,
    generator: LoadGenerator,
    pods: PodUses,
    kubeconfig: Path,
    port: int,
    context: ssl.SSLContext,
) -> None:
    """Let the load follow the cluster's pods while the app runs, and serve it as `metrics.k8s.io` on a port."""

    async def run(_: web.Application) -> AsyncIterator[None]:
        api = metrics_server.application(pods, lambda: generator.uses(time.monotonic()))
        runner = web.AppRunner(api, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, port, ssl_context=context).start()
        async with KubeClient(ClientConfig.load(kubeconfig), user_agent="load-generator") as client:
            # It waits until the API server is there, and goes on after it was away.
            watching = asyncio.create_task(
                Reflector(client, "/api/v1/pods", UnstructuredCodec(), pods, unchanged).run()
            )
            yield
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await runner.cleanup()

    app.cleanup_ctx.append(run)


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="load-generator")
    parser.add_argument("--nodes", type=Path, required=True, help="JSON file: node name to size and target load")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--follow-pods", type=Path, metavar="KUBECONFIG", help="add what the cluster's pods use")
    parser.add_argument("--metrics-server-port", type=int, help="serve that as metrics.k8s.io")
    parser.add_argument("--certificate", type=Path, help="for the metrics server")
    parser.add_argument("--key", type=Path)
    arguments = parser.parse_args()
    nodes = {name: SimulatedLoad.model_validate(load) for name, load in json.loads(arguments.nodes.read_text()).items()}
    generator = LoadGenerator(nodes, time.monotonic())
    pods = PodUses(lambda uses: generator.show_pods(uses, time.monotonic()))
    app = application(generator, pods)
    if arguments.follow_pods:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(arguments.certificate, arguments.key)
        follow_pods(app, generator, pods, arguments.follow_pods, arguments.metrics_server_port, context)
    web.run_app(app, host=LOOPBACK, port=arguments.port, print=None, access_log=None)


if __name__ == "__main__":
    main()


_TIMEOUT_SECONDS = 5.0


def fraction(quantity: str, text: str) -> float:
    """A share written as `85%` or `0.85`, as a fraction. Raises SpecError for anything else and outside 0 to 1."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
    value = float(match.group(1)) / (100 if match.group(2) else 1) if match else -1.0
    if not 0 <= value <= 1:
        raise SpecError(f"{quantity} {text!r}: write a share between 0% and 100%, such as 85% or 0.85")
    return value


class LoadClient:
    """Reads and sets the nodes' loads, as fractions of 1."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        # Proxy variables of the user's shell are not meant for loopback.
        self._session.trust_env = False

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Every node's `cpus`, `memoryBytes`, `cpu` and `memory`. Raises ServiceError."""
        return self._call("GET", "/nodes")

    def change(self, node: str, change: Mapping[str, float]) -> dict[str, Any]:
        """Set `cpu`, `memory` or both; returns the node as it is then. Raises ServiceError."""
        return self._call("PUT", f"/nodes/{quote(node)}", dict(change))

    def _call(self, method: str, path: str, body: dict[str, float] | None = None) -> dict[str, Any]:
        try:
            response = self._session.request(method, self._url + path, json=body, timeout=_TIMEOUT_SECONDS)
            answer: dict[str, Any] = response.json()
        except (requests.RequestException, ValueError) as error:
            raise ServiceError(f"the load generator at {self._url} does not answer: is the cluster running?") from error
        if not response.ok:
            raise ServiceError(
                f"the load generator refused {method} {path}: {answer.get('error', response.status_code)}"
            )
        return answer
