"""Probes: when they run and what their results mean, for a caller that keeps the clock; and how they are performed
against a pod's address, as HTTP hooks are, with an outcome worded as by kubelet.

Source of the rules: k8s.io/kubernetes/pkg/kubelet/prober/worker.go.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

from devcluster.node_agent.objects import Obj

EXCERPT = 1024
REDIRECTS = 10

ProbeKind = Literal["startup", "liveness", "readiness"]
Exec = Callable[[Sequence[str], float], Awaitable[tuple[int, str]]]
"""Runs a command in the container within seconds: (exit code, output). Raises TimeoutError, StartError."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Outcome of one probe."""

    ok: bool
    message: str = ""


class Prober:
    """One HTTP session for all probes of the node. Certificates are not verified, as by kubelet."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    async def probe(self, handler: Obj, container: Obj, address: str, timeout: float, run: Exec) -> ProbeResult:
        """Run a v1.ProbeHandler once; never raises for what the container does.

        `address` is the pod's, `timeout` in seconds, and `run(command, seconds)` executes the command of an exec
        handler.
        """
        try:
            async with asyncio.timeout(timeout):
                if "httpGet" in handler:
                    return await self.http(handler["httpGet"], container, address)
                if "tcpSocket" in handler:
                    return await _tcp(handler["tcpSocket"], container, address)
                code, output = await run(handler["exec"].get("command") or [], timeout)
                return ProbeResult(code == 0, output[:EXCERPT] or f"command exited with code {code}")
        except TimeoutError:
            return ProbeResult(False, f"{_subject(handler, container, address)}: context deadline exceeded")
        except (OSError, ValueError, RuntimeError, aiohttp.ClientError) as error:
            return ProbeResult(False, f"{_subject(handler, container, address)}: {_reason(error)}")

    async def http(self, action: Obj, container: Obj, address: str) -> ProbeResult:
        """GET as an HTTP probe or hook does; 200..399 is success."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=False, force_close=True, limit=0)
            headers = {"User-Agent": "kube-probe/1.34", "Accept": "*/*"}
            self._session = aiohttp.ClientSession(
                connector=connector, headers=headers, cookie_jar=aiohttp.DummyCookieJar()
            )
        headers = {header["name"]: header["value"] for header in action.get("httpHeaders") or []}
        url = http_url(action, container, address)
        async with self._session.get(url, headers=headers, max_redirects=REDIRECTS) as response:
            with contextlib.suppress(aiohttp.ClientError):
                await response.content.read(EXCERPT)
            ok = 200 <= response.status < 400
            return ProbeResult(ok, "" if ok else f"HTTP probe failed with statuscode: {response.status}")


def http_url(action: Obj, container: Obj, address: str) -> str:
    """The URL of an HTTPGetAction; a path without its leading slash gets one."""
    scheme = (action.get("scheme") or "HTTP").lower()
    host = action.get("host") or address
    return f"{scheme}://{host}:{port_number(action['port'], container)}/{(action.get('path') or '/').lstrip('/')}"


def port_number(port: Any, container: Obj) -> int:
    """A port given by number or by the name of one of the container's ports. Raises ValueError for an unknown name."""
    if isinstance(port, int):
        return port
    for declared in container.get("ports") or []:
        if declared.get("name") == port:
            return int(declared["containerPort"])
    if str(port).isdigit():
        return int(port)
    raise ValueError(f"couldn't find port {port!r} in container {container['name']!r}")


async def _tcp(action: Obj, container: Obj, address: str) -> ProbeResult:
    host, port = action.get("host") or address, port_number(action["port"], container)
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    return ProbeResult(True)


def _reason(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number:
        return f"connect: {os.strerror(number).lower()}"
    return str(error) or type(error).__name__


def _subject(handler: Obj, container: Obj, address: str) -> str:
    try:
        if "httpGet" in handler:
            return f'Get "{http_url(handler["httpGet"], container, address)}"'
        if "tcpSocket" in handler:
            return f"dial tcp {address}:{port_number(handler['tcpSocket']['port'], container)}"
    except ValueError:
        return "probe"
    return "command"


@dataclass(frozen=True, slots=True)
class ProbeTiming:
    """The timing fields of a probe with the API server's defaults, in seconds."""

    initial_delay: float = 0
    period: float = 10
    timeout: float = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    grace_period: int | None = None

    @classmethod
    def of(cls, probe: dict[str, Any]) -> "ProbeTiming":
        """Read them from a v1.Probe."""
        return cls(
            initial_delay=probe.get("initialDelaySeconds") or 0,
            period=probe.get("periodSeconds") or 10,
            timeout=probe.get("timeoutSeconds") or 1,
            success_threshold=probe.get("successThreshold") or 1,
            failure_threshold=probe.get("failureThreshold") or 3,
            grace_period=probe.get("terminationGracePeriodSeconds"),
        )


@dataclass(slots=True)
class ProbeState:
    """One probe of one running container instance."""

    kind: ProbeKind
    timing: ProbeTiming
    started_at: float
    passing: bool = field(init=False)
    _streak: int = field(init=False, default=0)
    _last: bool | None = field(init=False, default=None)
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        # Until it has spoken, liveness counts as passed, readiness and startup do not.
        self.passing = self.kind == "liveness"
        self._next = self.started_at + self.timing.initial_delay

    def due(self) -> float:
        """When to probe next."""
        return self._next

    def hold_until(self, when: float) -> None:
        """Do not probe before ``when`` (liveness and readiness wait for the startup probe)."""
        self._next = max(self._next, when)

    def record(self, succeeded: bool, now: float) -> bool:
        """Note a result; return whether ``passing`` changed or a failure threshold was reached just now."""
        self._next = now + self.timing.period
        self._streak = self._streak + 1 if self._last is succeeded else 1
        self._last = succeeded
        needed = self.timing.success_threshold if succeeded else self.timing.failure_threshold
        if self._streak < needed:
            return False
        changed = self.passing is not succeeded or (not succeeded and self._streak == needed)
        self.passing = succeeded
        return changed
