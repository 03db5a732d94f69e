"""Performs probes and HTTP hooks against a pod's address, worded as kubelet words their outcome."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from devcluster.node_agent.objects import Obj

EXCERPT = 1024
REDIRECTS = 10

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
    for known in container.get("ports") or []:
        if known.get("name") == port:
            return int(known["containerPort"])
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
