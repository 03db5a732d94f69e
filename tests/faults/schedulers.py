"""Schedulers as processes behind a proxy: ours, a mutant of ours, or the real kube-scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from devcluster import ports
from tests.faults.patience import patience
from tests.faults.proxy import Proxy
from tests.faults.vdso import set_wall_clock
from tests.faults.warm import WarmProcess, WarmStarts

Json = dict[str, Any]
OURS, REAL, PLUGINS = "ours", "real", "scheduler-plugins"
LEASE = ("kube-system", "faults")
LEASE_LOST = "leader election lost"
"""What a process logs that ends because it could not renew its Lease, whatever it was about to do."""
_START_SECONDS = 90.0


@dataclass
class Setup:
    """How a scheduler is started."""

    kind: str = OURS
    """OURS, REAL (kube-scheduler), PLUGINS (that of scheduler-plugins), or the name of a mutant."""
    profile: Json = field(default_factory=dict)
    """Further fields of its profile."""
    leader_election: bool = False
    lease_seconds: tuple[int, int, int] = (6, 4, 1)
    """Lease duration, renew deadline, retry period."""
    lease: tuple[str, str] = LEASE
    user_entry: dict[str, str] = field(default_factory=dict)
    """The kubeconfig's user, for a token."""
    qps: int = 500
    flags: tuple[str, ...] = ()
    judged: bool = True
    """False for one that is only there to disturb."""
    environment: dict[str, str] = field(default_factory=dict)
    speaks_json: bool = False
    """Go's is to speak JSON instead of protobuf, so that the proxy can edit what it is shown."""
    top: Json = field(default_factory=dict)
    """Further fields of the configuration."""


class Scheduler:
    """One process. Its output is JSON for ours, klog for the real one."""

    def __init__(
        self,
        name: str,
        setup: Setup,
        proxy: Proxy,
        directory: Path,
        binary: Path,
        scheduler_name: str,
        warm_starts: WarmStarts | None = None,
    ) -> None:
        self.name = name
        self._warm_starts = warm_starts
        self.setup = setup
        self.proxy = proxy
        self.log_file = directory / f"{name}.log"
        self._skew = directory / f"{name}.skew"
        self._dump = directory / f"{name}.dump"
        self.port = ports.allocate(["scheduler"], {})["scheduler"]
        self.process: asyncio.subprocess.Process | WarmProcess | None = None
        self._started_at = 0
        self._config = directory / f"{name}.json"
        self._config.write_text(json.dumps(self._configuration(scheduler_name, directory)))
        self._command = self._command_line(binary)

    def _configuration(self, scheduler_name: str, directory: Path) -> Json:
        setup = self.setup
        kubeconfig = self.proxy.write_kubeconfig(directory / f"{self.name}.kubeconfig", **setup.user_entry)
        duration, deadline, period = setup.lease_seconds
        election: Json = {"leaderElect": setup.leader_election}
        if setup.leader_election:
            election |= {
                "leaseDuration": f"{duration}s",
                "renewDeadline": f"{deadline}s",
                "retryPeriod": f"{period}s",
                "resourceNamespace": setup.lease[0],
                "resourceName": setup.lease[1],
            }
        connection = {"kubeconfig": str(kubeconfig), "qps": setup.qps, "burst": setup.qps}
        if setup.speaks_json and not self.is_ours:
            connection |= {"contentType": "application/json", "acceptContentTypes": "application/json"}
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": election,
            "clientConnection": connection,
            "podMaxBackoffSeconds": 2,
            "profiles": [{"schedulerName": scheduler_name, **setup.profile}],
            **setup.top,
        }

    def _command_line(self, binary: Path) -> list[str]:
        common = [f"--config={self._config}", "--bind-address=127.0.0.1", f"--secure-port={self.port}"]
        common += ["--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics", *self.setup.flags]
        if not self.is_ours:
            return [str(binary), *common, "-v=2"]
        return [sys.executable, "-m", "tests.faults.debugged", *common, "--logging-format=json"]

    @property
    def is_ours(self) -> bool:
        """Whether it is our program, or a mutant of it."""
        return self.setup.kind not in (REAL, PLUGINS)

    @property
    def judged(self) -> bool:
        """Whether the oracle judges what it does."""
        return self.setup.judged

    @property
    def log(self) -> str:
        """What it has written."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def log_since_start(self) -> str:
        """What it has written since it was started last."""
        return self.log_file.read_bytes()[self._started_at :].decode(errors="replace") if self.log_file.exists() else ""

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.returncode is None

    async def start(self, *, ready: bool = True) -> None:
        """Start it, and wait until its caches are filled."""
        environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith("COVERAGE") and name.upper() not in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        }  # fmt: skip
        environment |= {"FAULTS_DUMP": str(self._dump), "FAULTS_SKEW": str(self._skew), **self.setup.environment}
        if self.setup.kind not in (OURS, REAL, PLUGINS):
            environment["FAULTS_MUTANT"] = self.setup.kind
        self._started_at = self.log_file.stat().st_size if self.log_file.exists() else 0
        if self._warm_starts is not None and self.is_ours:
            self.process = await self._warm_starts.start(self._command[3:], environment, self.log_file)
        else:
            with self.log_file.open("ab") as output:
                self.process = await asyncio.create_subprocess_exec(
                    *self._command, stdout=output, stderr=output, env=environment
                )
        if ready:
            await self.until(self.is_ready, _START_SECONDS)

    async def is_ready(self) -> bool:
        """Whether it says that it could schedule, as leader or follower."""
        if self.is_ours:
            return "caches are filled" in self.log_since_start
        return await self.serves()

    async def serves(self) -> bool:
        """Whether its own server says that it is ready."""
        status, _ = await self.ask("/readyz")
        return status == 200

    @property
    def leads(self) -> bool:
        """Whether it has said that it became the leader."""
        log = self.log_since_start
        return "became leader" in log or "successfully acquired lease" in log

    async def until(self, condition: Callable[[], Any], seconds: float) -> float:
        """Wait for a condition, which may be a coroutine; returns how long that took. The process must stay alive."""
        started = time.monotonic()
        while True:
            outcome = condition()
            if await outcome if asyncio.iscoroutine(outcome) else outcome:
                return time.monotonic() - started
            late = time.monotonic() - started > patience(seconds)
            assert not late, f"{self.name}: not within {seconds:g} s: {self.log[-1500:]}"
            assert self.alive, f"{self.name} ended: {self.log[-1500:]}"
            await asyncio.sleep(0.05)

    async def ask(self, path: str) -> tuple[int, str]:
        """GET from its own server; status 0 where nobody answers."""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                session.get(f"https://127.0.0.1:{self.port}{path}", ssl=tls) as answer,
            ):
                return answer.status, await answer.text()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return 0, ""

    async def page(self, path: str) -> tuple[int, str]:
        """As `ask`, but waits for its server, which opens only after the first pods are placed."""
        answers: list[tuple[int, str]] = []

        async def answered() -> bool:
            answers.append(await self.ask(path))
            return answers[-1][0] != 0

        await self.until(answered, 30)
        return answers[-1]

    async def cache(self) -> Json:
        """Its cache as it is now."""
        self._dump.unlink(missing_ok=True)
        self.signal(signal.SIGUSR2)
        await self.until(self._dump.exists, 10)
        return dict(json.loads(self._dump.read_text()))

    def signal(self, number: signal.Signals) -> None:
        """Signal it, unless it has ended."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def skew(self, seconds: float) -> None:
        """Move its wall clock."""
        if not self.is_ours:
            assert self.process is not None
            set_wall_clock(self.process.pid, seconds)
            return
        temporary = self._skew.with_suffix(".new")
        temporary.write_text(str(seconds))
        temporary.replace(self._skew)

    def figures(self) -> dict[str, float]:
        """Memory, descriptors, log; only the log of one that has ended."""
        assert self.process is not None
        figures: dict[str, float] = {"log_bytes": self.log_file.stat().st_size}
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.process.pid)
            figures |= {"resident_bytes": process.memory_info().rss, "descriptors": process.num_fds()}
        return figures

    async def ended(self, seconds: float = 30.0) -> int:
        """Wait for its end; returns the exit code."""
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), patience(seconds))

    async def kill(self) -> None:
        """End it without warning."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """Ask it to end; returns the exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            return await self.ended()
        except TimeoutError:
            await self.kill()
            return -9
