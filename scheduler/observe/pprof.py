"""The handlers below `/debug/pprof`. Imported in the server's thread."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from typing import Final

from aiohttp import web

from scheduler.observe.answers import EndpointSources
from scheduler.observe.profiling import MAX_SECONDS, StackProfile, sample_stacks, show_stacks, thread_stacks

_DEFAULT_SECONDS: Final = 30.0
_GO_ONLY: Final = ("allocs", "block", "heap", "mutex", "symbol", "threadcreate", "trace")
_INDEX: Final = """/debug/pprof/

Types of profiles available:
cmdline: the command line of this process
goroutine: stacks of all threads, and of the tasks of the scheduling loop; with debug=1 or debug=2 as text
profile: CPU time by stack; seconds says for how long, 60 at most. Read it with `go tool pprof`
"""


class ProfilingEndpoints:
    """What `--profiling` serves: `cmdline`, `goroutine` and `profile`; what only Go has is not found."""

    def __init__(self, answers: EndpointSources) -> None:
        self._answers = answers
        self._sampling = False

    def add_to(self, application: web.Application) -> None:
        """Add the routes."""
        application.router.add_get("/debug/pprof", self._redirect)
        application.router.add_get("/debug/pprof/", self._index)
        application.router.add_get("/debug/pprof/cmdline", self._command_line)
        application.router.add_get("/debug/pprof/goroutine", self._stacks)
        application.router.add_get("/debug/pprof/profile", self._profile)
        application.router.add_get("/debug/pprof/{name}", self._absent)

    async def _redirect(self, _: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/debug/pprof/"})

    async def _index(self, _: web.Request) -> web.Response:
        return web.Response(text=_INDEX)

    async def _command_line(self, _: web.Request) -> web.Response:
        # Separated as Go does. No flag takes a credential.
        return web.Response(text="\x00".join(sys.argv))

    async def _absent(self, request: web.Request) -> web.Response:
        name = request.match_info["name"][:80]
        reason = "only Go has it" if name in _GO_ONLY else "unknown profile"
        return web.Response(status=404, text=f"{name}: {reason}; there are cmdline, goroutine and profile\n")

    async def _stacks(self, request: web.Request) -> web.Response:
        stacks = thread_stacks()
        # What a busy loop does is in its thread's stack.
        with contextlib.suppress(TimeoutError):
            stacks |= await self._answers.gauges.ask(self._answers.loop_stacks)
        if request.query.get("debug", "0") != "0":
            return web.Response(text=show_stacks(stacks))
        profile = StackProfile()
        for stack in stacks.values():
            profile.add(stack)
        return _download("goroutine", profile.encoded("goroutine", time.time_ns(), 0.0))

    async def _profile(self, request: web.Request) -> web.Response:
        try:
            seconds = float(request.query.get("seconds", _DEFAULT_SECONDS))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= MAX_SECONDS:
            return web.Response(status=400, text=f"seconds: write a number above 0, {MAX_SECONDS:.0f} at most\n")
        if self._sampling:
            return web.Response(status=500, text="Could not enable CPU profiling: cpu profiling already in use\n")
        self._sampling = True
        stopped, started = threading.Event(), time.time_ns()
        try:
            profile = await asyncio.to_thread(sample_stacks, seconds, stopped)
            encoded = await asyncio.to_thread(profile.encoded, "samples", started, seconds)
        finally:
            stopped.set()
            self._sampling = False
        return _download("profile", encoded)


def _download(name: str, content: bytes) -> web.Response:
    headers = {"Content-Type": "application/octet-stream", "Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(body=content, headers={**headers, "X-Content-Type-Options": "nosniff"})
