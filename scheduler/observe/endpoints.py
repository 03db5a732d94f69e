"""What the HTTPS server answers. Imported in its thread: aiohttp's server and the text format take a while.

`/healthz`, `/livez` and `/readyz` answer anybody; everything else wants a client that may `get` the path
(SubjectAccessReview), known by a bearer token (TokenReview) or by a certificate, as upstream. `/statusz` and `/flagz`
are those of kube-scheduler 1.36 (KEP 4827, KEP 4828): text for people, and a document for who asks for it in the
header Accept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import platform
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import structlog
from aiohttp import web
from msgspec import Struct
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from scheduler import __version__
from scheduler.catalog import HANDOVER_PATH
from scheduler.observe.answers import EndpointSources
from scheduler.observe.authorization import TOO_MANY, Authorizer
from scheduler.observe.clients import user_of
from scheduler.observe.decisions import DecisionEndpoints, HandoverEndpoint, NodeLoadEndpoint
from scheduler.observe.health import FailureLog, HealthMetrics, report
from scheduler.observe.profiling import MAX_SECONDS, StackProfile, sample_stacks, show_stacks, thread_stacks
from scheduler.observe.resources import resource_metrics
from scheduler.observe.series import VisibleMetrics

log = structlog.get_logger(component="serving")


def _log_check(endpoint: str, check: str, reason: str | None) -> None:
    if reason is None:
        log.info("a health check passes again", endpoint=endpoint, check=check)
    else:
        log.warning("a health check fails", endpoint=endpoint, check=check, reason=reason[:1000])


class Endpoints:
    """The handlers behind one server."""

    def __init__(
        self, answers: EndpointSources, authorizer: Authorizer, handover_authorizer: Authorizer | None = None
    ) -> None:
        """`handover_authorizer` knows the tokens of the other replicas; needed with `answers.handover`."""
        self._answers = answers
        self._authorizer = authorizer
        self._handover_authorizer = handover_authorizer
        self._failures = FailureLog(_log_check)
        self._shown = VisibleMetrics(answers.registry, answers.disabled_metrics, answers.metric_levels)
        # Each holds all pods in memory once more.
        self._one_report = asyncio.Semaphore(1)
        self._health_metrics = HealthMetrics(answers.started)

    def application(self) -> web.Application:
        """Return the application with its routes."""
        application = web.Application(middlewares=[self._guard()], client_max_size=64 * 1024)
        application.router.add_get("/{endpoint:healthz|livez|readyz}", self._health)
        application.router.add_get("/{endpoint:healthz|livez|readyz}/{check}", self._health)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/metrics/resources", self._resources)
        application.router.add_get("/metrics/slis", self._slis)
        application.router.add_get("/configz", self._show_configuration)
        if self._answers.behaves_as:
            application.router.add_get("/statusz", self._statusz)
        if self._answers.flags is not None:
            application.router.add_get("/flagz", self._flagz)
        if self._answers.profiling:
            ProfilingEndpoints(self._answers).add_to(application)
        if self._answers.inspect is not None:
            DecisionEndpoints(self._answers).add_to(application)
        if self._answers.handover is not None:
            HandoverEndpoint(self._answers.handover, self._answers.gauges).add_to(application)
        if self._answers.node_loads is not None:
            NodeLoadEndpoint(self._answers).add_to(application)
        return application

    def _note_check(self, endpoint: str, check: str, reason: str | None) -> None:
        self._failures.note(endpoint, check, reason)
        self._health_metrics.note(endpoint, check, reason)

    def _guard(self) -> Any:
        @web.middleware
        async def guard(
            request: web.Request, handler: Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]
        ) -> web.StreamResponse:
            path = request.path
            # Whatever is open to others: its answer holds a credential.
            handover = self._handover_authorizer if path == HANDOVER_PATH else None
            authorizer = handover or self._authorizer
            if handover is None and any(_matches(path, allowed) for allowed in self._answers.always_allow):
                return await handler(request)
            user = None if handover is not None else user_of(request.get_extra_info("ssl_object"), time.time())
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            if user is None and (scheme.lower() != "bearer" or not token):
                return web.Response(status=403, text=f"{path}: a bearer token is needed\n")
            address = request.remote or ""
            try:
                if user is not None:
                    status = await authorizer.status_of_user(user, path, address)
                else:
                    status = await authorizer.status(token.strip(), path, address)
            except Exception as error:
                # Closed on every failure. The API server's text may be long, so it goes to the log.
                log.warning("token review failed", error=str(error)[:200])
                return web.Response(status=500, text="the API server could not review the token\n")
            if status == TOO_MANY:
                text = f"{path}: too many unknown tokens; try again\n"
                return web.Response(status=status, text=text, headers={"Retry-After": "5"})
            if status != 200 and user is not None:
                return web.Response(status=status, text=f"{path}: this user is not {_REFUSED[status]}\n")
            if status != 200:
                return web.Response(status=status, text=f"{path}: the token is not {_REFUSED[status]}\n")
            return await handler(request)

        return guard

    async def _health(self, request: web.Request) -> web.Response:
        endpoint = request.match_info["endpoint"]
        checks = self._answers.checks.of(endpoint) or {}
        only = request.match_info.get("check")
        if only is not None:
            if only not in checks:
                return web.Response(status=404, text=f"no check named {only[:80]}\n")
            checks = {only: checks[only]}
        healthy, body = report(
            endpoint,
            checks,
            exclude=request.query.getall("exclude", []),
            verbose="verbose" in request.query,
            # As upstream, a check that is asked for by name is not counted.
            note=self._failures.note if only is not None else self._note_check,
        )
        return web.Response(status=200 if healthy else 500, text=body)

    async def _metrics(self, _: web.Request) -> web.Response:
        await self._answers.gauges.wait()
        return web.Response(body=generate_latest(self._shown), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _resources(self, request: web.Request) -> web.StreamResponse:
        """Answer with the pods' resources, piece by piece."""
        async with self._one_report:
            try:
                pods = await self._answers.gauges.ask(self._answers.pod_resources)
            except TimeoutError:
                return web.Response(status=503, text="the scheduling loop is busy; try again\n")
            response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_LATEST})
            await response.prepare(request)
            for piece in resource_metrics(pods):
                await response.write(piece.encode())
            return response

    async def _slis(self, _: web.Request) -> web.Response:
        return web.Response(body=self._health_metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _statusz(self, request: web.Request) -> web.Response:
        now = datetime.now(UTC)
        status = ProcessStatus(datetime.fromtimestamp(self._answers.started, UTC), self._answers.behaves_as)
        return _answer_page(status.page(request.headers.get("Accept", ""), now))

    async def _flagz(self, request: web.Request) -> web.Response:
        accept, text_only = request.headers.get("Accept", ""), self._answers.flags_as_text
        return _answer_page(flags_page(self._answers.flags or {}, accept, text_only=text_only))

    async def _show_configuration(self, _: web.Request) -> web.Response:
        return web.json_response(self._answers.configz())


def _matches(path: str, allowed: str) -> bool:
    """Whether a path is the one of a rule, or below one that ends in `*`, as upstream (authorization/path)."""
    return path.startswith(allowed[:-1]) if allowed.endswith("*") else path == allowed


def _answer_page(page: DebugPage) -> web.Response:
    headers = {"Content-Type": page.media_type, **({"Warning": page.warning} if page.warning else {})}
    return web.Response(status=page.status, body=page.text.encode(), headers=headers)


_REFUSED = {401: "known to the API server", 403: "allowed to read this"}


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


_COMPONENT: Final = "kube-scheduler"
_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
_GROUP: Final = "config.k8s.io"
_DEPRECATED: Final = "v1alpha1"
_VERSIONS: Final = (_DEPRECATED, "v1beta1")
_DOCUMENTS: Final = ("application/json", "application/yaml")
_MAX_ACCEPT: Final = 2000
_NOT_ACCEPTABLE: Final = "only the following media types are accepted: application/json, application/yaml, text/plain"
_TEXT_ONLY: Final = "media type not acceptable, must be: text/plain"
_PATHS: Final = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")
"""What upstream names, whatever else it serves."""


class DebugPage(NamedTuple):
    """An answer: status, media type with its parameters, text, and the header Warning, if any."""

    status: int
    media_type: str
    text: str
    warning: str = ""


class ProcessStatus(Struct, frozen=True):
    """What `/statusz` shows.

    Attributes:
        started: when the process was, in UTC.
        behaves_as: the version of kube-scheduler, such as `1.36`.
    """

    started: datetime
    behaves_as: str

    def page(self, accept: str, now: datetime) -> DebugPage:
        """Return `/statusz` in the form that the client accepts; `now` is in UTC."""
        seconds = max(int((now - self.started).total_seconds()), 0)
        versions = (f"python{platform.python_version()}", f"{self.behaves_as}.0+secondary-scheduler-{__version__}")
        uptime = f"{seconds // 3600} hr {seconds // 60 % 60:02d} min {seconds % 60:02d} sec"
        lines = {
            "Started": self.started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            "Up": uptime,
            "Go version": versions[0],
            "Binary version": versions[1],
            "Emulation version": self.behaves_as,
            "Paths": " ".join(_PATHS),
        }
        document = {
            "startTime": self.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "uptimeSeconds": seconds,
            "goVersion": versions[0],
            "binaryVersion": versions[1],
            "emulationVersion": self.behaves_as,
            "paths": list(_PATHS),
        }
        return _page("Statusz", accept, [f"{name}: {value}" for name, value in lines.items()], document)


def flags_page(flags: Mapping[str, str], accept: str, *, text_only: bool = False) -> DebugPage:
    """Return `/flagz` in the form that the client accepts: values by the names of the flags.

    `text_only`: as up to 1.34, where it has another heading and no other form. Upstream's delimiter is chosen at random
    there, so that nobody reads it by program; ours is always the same.
    """
    ordered = dict(sorted(flags.items()))
    if text_only:
        if _choose("", accept) is None:
            return DebugPage(406, "text/plain; charset=utf-8", f"{_TEXT_ONLY}\n")
        lines = "".join(f"{name}={value}\n" for name, value in ordered.items())
        return DebugPage(200, "text/plain; charset=utf-8", f"\n{_COMPONENT} flags\n{_WARNING}\n\n{lines}")
    return _page("Flagz", accept, [f"{name}={value}" for name, value in ordered.items()], {"flags": ordered})


def _page(kind: str, accept: str, lines: list[str], document: Mapping[str, Any]) -> DebugPage:
    chosen = _choose(kind, accept)
    if chosen is None:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": _NOT_ACCEPTABLE,
            "reason": "NotAcceptable",
            "code": 406,
        }
        return DebugPage(406, "application/json", json.dumps(status, indent=2))
    media_type, version = chosen
    if media_type == "text/plain":
        text = "\n".join(("", f"{_COMPONENT} {kind.lower()}", _WARNING, "", *lines, ""))
        return DebugPage(200, "text/plain; charset=utf-8", text)
    whole = {"kind": kind, "apiVersion": f"{_GROUP}/{version}", "metadata": {"name": _COMPONENT}, **document}
    # JSON is YAML, too.
    warning = f"This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."
    return DebugPage(
        200,
        f"{media_type};g={_GROUP};v={version};as={kind}",
        json.dumps(whole, indent=2),
        f'299 - "{warning}"' if version == _DEPRECATED else "",
    )


def _choose(kind: str, accept: str) -> tuple[str, str] | None:
    """Return the first media type and version of an Accept header that is served; None for none."""
    if not accept.strip():
        return "text/plain", ""
    for clause in accept[:_MAX_ACCEPT].split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        if media_type in ("text/plain", "text/*", "*/*"):
            return "text/plain", ""
        requested = (parameters.get("g"), parameters.get("as"))
        if media_type in _DOCUMENTS and requested == (_GROUP, kind) and parameters.get("v") in _VERSIONS:
            return media_type, parameters["v"]
    return None
