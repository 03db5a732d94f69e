"""What a recording costs: `python -m benchmarks recording`.

`secondary-scheduler snapshot --record` on a cluster with many nodes, which report as often as kubelets do, while pods
arrive and our scheduler places them. The figures are processor time and memory of the recorder and processor time of
the API server, for the lists at the beginning and for what happens after them, and the size of the file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.race import cluster as servers
from benchmarks.race import contestants, watcher
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.contestants import OURS
from benchmarks.race.observe import Observer
from benchmarks.race.scenario import Arrivals, Scenario, Workload, load, resolved
from benchmarks.race.usage import peak_memory, processor_seconds
from benchmarks.race.world import World
from devcluster.errors import DevClusterError
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.kube.client import MERGE_PATCH, KubeClient, KubeError
from scheduler.kube.primitives import format_time

SCENARIO = "TargetLoadPacking"
_BEGUN = b"recording:"
_LIST_SECONDS = 600.0
_LOOK_SECONDS = 0.2
_HEARTBEAT_SECONDS = 300.0
"""How often a kubelet writes the status of a node on which nothing changes."""


@dataclass(frozen=True)
class Usage:
    """Seconds of processor time of recorder and API server so far, the recorder's peak of memory in bytes, and when."""

    recorder: float
    api: float
    memory: int
    clock: float


def usage(recorder: int, cluster: RaceCluster) -> Usage:
    """Look at the processes."""
    api = processor_seconds(cluster.api_server.pid)
    return Usage(processor_seconds(recorder), api, peak_memory(recorder), time.monotonic())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks recording", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000, help="pods that run at the beginning")
    parser.add_argument("--rate", type=float, default=10.0, help="pods that arrive per second")
    parser.add_argument("--seconds", type=int, default=120, help="how long to record")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        paths = binaries.ensure(["etcd", "kube-apiserver"], SilentReporter())
        with servers.running(paths) as cluster, tempfile.TemporaryDirectory(prefix="recording-") as folder:
            print(asyncio.run(_run(options, cluster, paths, Path(folder) / "cluster.recording")))
    except (DevClusterError, RuntimeError, KubeError) as error:
        print(f"benchmarks recording: {error}", file=sys.stderr)
        return 1
    return 0


async def _run(options: argparse.Namespace, cluster: RaceCluster, paths: dict[str, Path], file: Path) -> str:
    scenario: Scenario = load()[SCENARIO]
    workload = Workload(
        name="recording", params={"nodes": options.nodes, "init": options.pods, "pods": 0, "rate": 1, "seconds": 1}
    )
    operations = resolved(scenario, workload)
    template = next(operation.template for operation in operations if isinstance(operation, Arrivals))
    async with (
        KubeClient(cluster.client_config(), qps=0, user_agent="recording", timeout=300) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        world, seen = World(client, scenario, workload.params, operations), Observer(client)
        await world.build()
        address = stack.enter_context(watcher.serving(watcher.loads(world.nodes)))
        scheduler = contestants.start(OURS, scenario, cluster, paths, address)
        stack.callback(contestants.stop, scheduler)
        await stack.enter_async_context(seen.watch())
        begun = Usage(0.0, processor_seconds(cluster.api_server.pid), 0, time.monotonic())
        recorder = await _record(cluster, address, file, options.seconds)
        stack.callback(_end, recorder)
        assert recorder.stderr is not None
        messages = await _until_begun(recorder.stderr)
        listed = ended = usage(recorder.pid, cluster)
        beating = asyncio.create_task(_heartbeats(client, world.nodes))
        arriving = asyncio.create_task(world.arrive(template, "arriving", options.rate, options.seconds))
        while recorder.returncode is None:
            # It may end between two looks; the one before is near enough.
            with contextlib.suppress(OSError, RuntimeError):
                ended = usage(recorder.pid, cluster)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await recorder.wait()
        messages += await recorder.stderr.read()
        for task in (beating, arriving):
            task.cancel()
        await asyncio.gather(beating, arriving, return_exceptions=True)
        if recorder.returncode:
            raise RuntimeError(
                f"the recorder exited with {recorder.returncode}: {messages.decode(errors='replace')[-500:]}"
            )
    return report(begun, listed, ended, os.stat(file).st_size, messages.decode(errors="replace"))


async def _record(cluster: RaceCluster, address: str, file: Path, seconds: int) -> asyncio.subprocess.Process:
    command = ["snapshot", f"--kubeconfig={cluster.layout.kubeconfig}", f"--watcher={address}", f"--file={file}"]
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "secondary_scheduler.cli",
        *command,
        f"--record={seconds}s",
        "--load-interval=30s",
        stderr=asyncio.subprocess.PIPE,
        cwd=contestants.ROOT,
        env=os.environ | {"PYTHONPATH": str(contestants.ROOT)},
    )


def _end(recorder: asyncio.subprocess.Process) -> None:
    if recorder.returncode is None:
        recorder.kill()


async def _until_begun(stderr: asyncio.StreamReader) -> bytes:
    messages = b""
    async with asyncio.timeout(_LIST_SECONDS):
        while line := await stderr.readline():
            messages += line
            if line.startswith(_BEGUN):
                return messages
    raise RuntimeError(f"the recorder has ended: {messages.decode(errors='replace')[-500:]}")


async def _heartbeats(client: KubeClient, nodes: Sequence[str]) -> None:
    """Have each node report every five minutes, one node after the other."""
    while True:
        for name in nodes:
            # Only the time of a condition changes, as for a node on which nothing else does.
            condition: dict[str, Any] = {"type": "Ready", "status": "True", "reason": "Race"}
            body = {"status": {"conditions": [condition | {"lastHeartbeatTime": format_time(datetime.now(UTC))}]}}
            await client.patch(f"/api/v1/nodes/{name}/status", body, content_type=MERGE_PATCH)
            await asyncio.sleep(_HEARTBEAT_SECONDS / len(nodes))


def report(begun: Usage, listed: Usage, ended: Usage, size: int, messages: str) -> str:
    """Return the figures; `size` is the file's in bytes, `messages` what the recorder wrote to stderr."""
    seconds, used = ended.clock - listed.clock, ended.recorder - listed.recorder
    return (
        f"lists: recorder {listed.recorder:.1f} s of processor time, its start included, "
        f"{listed.memory / 2**20:.0f} MiB at most, API server {listed.api - begun.api:.1f} s, "
        f"in {listed.clock - begun.clock:.1f} s\n"
        f"after them: recorder {used:.1f} s in {seconds:.0f} s ({100 * used / seconds:.1f} % of one processor), "
        f"{ended.memory / 2**20:.0f} MiB at most, API server {ended.api - listed.api:.1f} s in all\n"
        f"file: {size / 2**20:.1f} MiB\n{messages.strip()}"
    )
