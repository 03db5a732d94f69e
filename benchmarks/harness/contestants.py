"""The processes under test: our scheduler, the scenario's Go scheduler, and the null binder; what they cost, and how
they answer. All get one configuration file."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import aiohttp
import psutil

from benchmarks.harness.control_plane import ControlPlane, require_alive
from benchmarks.harness.podwatch import PodWatch
from benchmarks.harness.scenario import SCHEDULER_NAME, ContestantProfile, Json
from devcluster import ports, processes
from devcluster.ports import LOOPBACK
from devcluster.probes import https_ok, unchecked_tls
from devcluster.processes import ProcessRecord, ServiceProcess

OURS, PEER, NULL = "ours", "peer", "null"
ROOT = Path(__file__).resolve().parent.parent.parent
FIRST_SECONDS = 120.0
"""A contestant that has bound nothing by then will not, and objects that are still there will stay."""
_QPS, _BURST = 5000, 10000
_OPEN = "/healthz,/readyz,/livez,/metrics"
_VERBOSITY = "2"
"""What the operator passes at its normal log level."""
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Contestant:
    """One process under test on a control plane."""

    role: str
    process: ProcessRecord
    port: int
    """Where it serves /livez and /metrics; 0 for the null binder."""
    cluster: ControlPlane

    def require_alive(self) -> None:
        """Raise RuntimeError with the end of its log when it, or a server, has ended."""
        require_alive(self.process)
        self.cluster.require_alive()

    async def wait_for(self, seen: PodWatch, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition on what is seen while contestant and servers live; returns whether it came true."""
        deadline = time.monotonic() + seconds
        while not await seen.wait_for(condition, min(2.0, deadline - time.monotonic())):
            self.require_alive()
            if time.monotonic() >= deadline:
                return False
        return True

    async def wait_for_first_binding(self, seen: PodWatch, condition: Callable[[], bool] | None = None) -> None:
        """Wait until it has bound a pod, or what else shows that it works.

        Raises:
            RuntimeError: that does not come; the message ends with its log.
        """
        if not await self.wait_for(seen, condition or (lambda: bool(seen.bound)), FIRST_SECONDS):
            log = processes.last_lines(self.process.log)
            raise RuntimeError(f"{self.role} bound no pod in {FIRST_SECONDS:.0f} s: {log}")

    async def wait_until_live(self) -> None:
        """Wait until it answers at /livez. Raises RuntimeError when it does not."""
        deadline, live = time.monotonic() + FIRST_SECONDS, https_ok(self.port, "/livez", None)
        while not await asyncio.to_thread(live):
            self.require_alive()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.role} does not answer at /livez after {FIRST_SECONDS:.0f} s")
            await asyncio.sleep(0.2)

    async def wait_until_bound(self, seen: PodWatch, names: Sequence[str], seconds: float) -> bool:
        """Wait until all of these pods have a node; returns whether they do."""
        expected = set(names)
        return await self.wait_for(seen, lambda: expected <= seen.bound.keys(), seconds)

    async def metrics(self) -> str:
        """What it serves at /metrics; "" where it refuses."""
        async with _session() as session, session.get(f"https://{LOOPBACK}:{self.port}/metrics") as answer:
            return await answer.text() if answer.status == 200 else ""

    @contextlib.asynccontextmanager
    async def probing(
        self, every: float, *, timeout: float | None = None, fresh: bool = False
    ) -> AsyncIterator[list[Probe]]:
        """Ask /livez while the block runs; yields the probes so far.

        Args:
            every: seconds from one probe to the next; one that takes longer delays the next.
            timeout: seconds after which it counts as failed.
            fresh: over a new connection each time, as a kubelet does.
        """
        probes: list[Probe] = []
        if not self.port:
            yield probes
            return

        async def ask() -> None:
            async with _session(fresh) as session:
                while True:
                    began = time.monotonic()
                    seconds = None
                    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                        async with (
                            asyncio.timeout(timeout),
                            session.get(f"https://{LOOPBACK}:{self.port}/livez") as answer,
                        ):
                            await answer.read()
                            seconds = time.monotonic() - began if answer.status == 200 else None
                    probes.append(Probe(began, seconds))
                    await asyncio.sleep(max(0.0, began + every - time.monotonic()))

        task = asyncio.create_task(ask())
        try:
            yield probes
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True)
class Probe:
    """When /livez was asked, in seconds of `time.monotonic()`, and how long a good answer took; None for no such."""

    at: float
    seconds: float | None


def _session(fresh: bool = False) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=unchecked_tls(), force_close=fresh))


def configuration(
    profile: ContestantProfile, kubeconfig: Path, watcher: str = "", scheduler_name: str = SCHEDULER_NAME
) -> Json:
    """The configuration of all contestants; `watcher` is the URL of the fake load-watcher."""
    settings: Json = {"schedulerName": scheduler_name}
    if profile.plugins:
        settings["plugins"] = profile.plugins
    if profile.plugin_config:
        settings["pluginConfig"] = json.loads(json.dumps(profile.plugin_config).replace("$watcher", watcher))
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _QPS, "burst": _BURST},
        **profile.extra,
        "profiles": [settings],
    }


@contextlib.contextmanager
def running(
    role: str,
    profile: ContestantProfile,
    cluster: ControlPlane,
    *,
    watcher: str = "",
    scheduler_name: str = SCHEDULER_NAME,
    root: Path = ROOT,
    params: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[Contestant]:
    """Run a contestant of a role on the cluster while the block runs, without waiting until it works.

    Args:
        role: NULL, PEER, or ours under any name.
        profile: its configuration, and which Go scheduler the peer is.
        cluster: with the peer's executable.
        watcher: URL of the fake load-watcher.
        scheduler_name: of the pods that it places.
        root: the checkout that our scheduler is started from.
        params: the workload's: `victims` of each pod, and whether the null binder is `bare`.
    """
    layout = cluster.layout
    # What is not counted writes byte code for what is, also where the caller's environment forbids it: an image has it.
    environment = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": ""}
    port = 0 if role == NULL else ports.allocate([role], {})[role]
    if role == NULL:
        argv = [sys.executable, "-m", "benchmarks.race.nullbinder", str(layout.kubeconfig)]
        argv += [f"--victims={params.get('victims', 0)}", *(["--bare"] if params.get("bare") else [])]
    else:
        file = layout.config(f"{role}.json")
        file.write_text(json.dumps(configuration(profile, layout.kubeconfig, watcher, scheduler_name)))
        argv = [f"--config={file}", f"--bind-address={LOOPBACK}", f"--secure-port={port}", f"-v={_VERBOSITY}"]
        if role == PEER:
            rights = (f"--{purpose}-kubeconfig={layout.kubeconfig}" for purpose in ("authentication", "authorization"))
            argv = [str(cluster.binaries[profile.peer]), *argv, *rights, f"--authorization-always-allow-paths={_OPEN}"]
        else:
            argv = [interpreter(root), "-m", "scheduler", *argv]
    service = ServiceProcess(role, argv, ports=[port] if port else [], env=environment)
    contestant = Contestant(role, processes.start(service, layout.root), port, cluster)
    try:
        yield contestant
    finally:
        processes.stop([contestant.process])


def add_checkouts(parser: argparse.ArgumentParser) -> None:
    """Add `--before`, which names checkouts to compare ours with."""
    parser.add_argument(
        "--before",
        type=Path,
        action="append",
        default=[],
        metavar="CHECKOUT",
        help="another checkout, run by its own .venv if it has one; may be repeated",
    )


def checkouts(parser: argparse.ArgumentParser, before: Sequence[Path]) -> dict[str, Path]:
    """Return ours and those of `--before`, by name; ends the process where names do not tell contestants apart."""
    others = {path.resolve().name: path.resolve() for path in before}
    if len(others) < len(before) or others.keys() & {OURS, PEER, NULL}:
        parser.error(f"--before: the directories need names that differ, also from {OURS}, {PEER} and {NULL}")
    return {OURS: ROOT, **others}


def interpreter(root: Path) -> str:
    """Return the Python of a checkout's own environment, so that interpreters and packages can be compared, too; this
    process' where it has none."""
    own = root / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, user and system, in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def peak_memory(pid: int) -> int:
    """The most resident memory that a process ever had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} shows no peak of its memory")


def sizes(pid: int) -> dict[str, float]:
    """Resident memory in MiB, file descriptors and threads of a process, and the time."""
    process = psutil.Process(pid)
    return {
        "rss": process.memory_info().rss / 2**20,
        "descriptors": float(process.num_fds()),
        "threads": float(process.num_threads()),
        "seconds": time.time(),
    }


def stolen_seconds() -> float:
    """Processor time that the hypervisor gave to others, over all cores, since boot."""
    return int(Path("/proc/stat").read_text().split(maxsplit=10)[8]) / _TICK
