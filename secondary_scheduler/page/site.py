"""The web application: who gets in, and the views of what they may see.

- A Host that is not ours is refused (a foreign name that resolves to us: DNS rebinding), and so is a form of others.
- Nobody sees anything without a token: of the `Authorization` header, or of a session. A token is never in a URL.
- There is no access log: its lines would say who looked at what.
- Health and what the running scheduler says are asked for with the visitor's own token, which has to be good at the API
  server: that of the header. A token of the form is for this page only; its owner sees what the Lease says, if allowed.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from scheduler import __version__
from secondary_scheduler.errors import CommandError, printable
from secondary_scheduler.page.cutting import Visitor, cut
from secondary_scheduler.page.rights import (
    AUDIENCE,
    CONFIGURATION,
    LEASE,
    MAX_NAMESPACES,
    NODES,
    Reviewer,
    Rights,
    named_namespaces,
    require_known,
    reviewed,
)
from secondary_scheduler.page.running import Running
from secondary_scheduler.page.sharing import NoPageModel, SharedPageModel
from secondary_scheduler.views import rendering
from secondary_scheduler.views.asking import BadQuery, read_form
from secondary_scheduler.views.guarding import HEADERS, MAX_BODY, Handler, Refused, check_form, host_of
from secondary_scheduler.views.health import health_page
from secondary_scheduler.views.pagemodels import PageModel
from secondary_scheduler.views.showing import VIEWS, FilledTemplate, View, asked_pod, show_why

COOKIE: Final = "__Host-session"
"""Browsers take it over TLS only, without a domain and for every path."""
MAX_SESSIONS: Final = 256
MAX_SESSIONS_OF_A_USER: Final = 16
IDLE_SECONDS: Final = 30 * 60.0
MAX_SECONDS: Final = 8 * 3600.0


@dataclass(slots=True)
class _Session:
    token: str
    user: str
    began: float
    used: float


class Sessions:
    """At most `MAX_SESSIONS`, and `MAX_SESSIONS_OF_A_USER`: the one that was idle longest goes first. They end with the
    process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By digest, the one that was idle longest first: how long a look-up takes says nothing about the bits.
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, token: str, user: str) -> str:
        """Begin a session of a user, and return its 192 random bits."""
        identifier = secrets.token_urlsafe(24)
        now = self._clock()
        own = [digest for digest, session in self._sessions.items() if session.user == user]
        for digest in own[: max(0, len(own) + 1 - MAX_SESSIONS_OF_A_USER)]:
            del self._sessions[digest]
        self._sessions[_digest(identifier)] = _Session(token, user, now, now)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return identifier

    def token(self, identifier: str) -> str | None:
        """Return the token of a session, which this keeps alive; None where it has ended, or there is none."""
        digest, now = _digest(identifier), self._clock()
        session = self._sessions.get(digest)
        if session is None:
            return None
        if now - session.used >= IDLE_SECONDS or now - session.began >= MAX_SECONDS:
            del self._sessions[digest]
            return None
        session.used = now
        self._sessions.move_to_end(digest)
        return session.token

    def close(self, identifier: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(_digest(identifier), None)


def _digest(identifier: str) -> bytes:
    return hashlib.sha256(identifier.encode("utf-8", "surrogateescape")).digest()


LOGIN: Final = "/login"
_NAMESPACES: Final = "/in/{namespaces}"
_MAX_TOKEN: Final = 16 << 10
_MAX_WAITING: Final = 64
"""Pages that wait for one that is made."""
_HEALTH: Final = ("health", "Health")
_WHY: Final = ("why", "Why is it there")
_NAVIGATION: Final = (("nodes", "Nodes"), ("queue", "Queue"), ("decisions", "Decisions"))
_GOOD_AT_THE_API_SERVER: Final = (
    "this token is good at the API server, where whoever takes over this page could use it; get one for this page "
    f"only: kubectl create token NAME --audience {AUDIENCE}"
)

_FOR_THIS_PAGE_ONLY: Final = (
    "your token is for this page only, so the scheduler cannot be asked with it: come through a proxy that passes your "
    "own token on, or ask from your machine: secondary-scheduler status, secondary-scheduler explain pod"
)


@dataclass(frozen=True, slots=True)
class Account:
    """What the head of a page says about its visitor.

    Attributes:
        namespaces: those it has named, with commas between them.
        sees_all: whether it sees the pods of all.
        can_ask: whether its token is good at the API server; else there is a session to end.
    """

    namespaces: str
    sees_all: bool
    can_ask: bool


@dataclass(slots=True)
class PageSite:
    """What the server shows, and to whom.

    Attributes:
        page_models: what is shown.
        hosts: names under which it answers, with any port.
        form_reviewer: reviews tokens of the form, which are for the page's audience.
        header_reviewer: reviews tokens of the header, which are for the API server.
        say: gets what goes wrong, for the log.
        running: what can be asked with a visitor's token; None: nothing, as the Lease is not known.
    """

    page_models: SharedPageModel
    hosts: frozenset[str]
    form_reviewer: Reviewer
    header_reviewer: Reviewer
    say: Callable[[str], None]
    running: Running | None = None
    sessions: Sessions = field(default_factory=Sessions)
    rights: Rights = field(default_factory=Rights)
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class PageCaller:
    """Whose request it is: a token, and who reviews it; `session` is what its cookie holds, or ""."""

    token: str
    reviewer: Reviewer
    session: str = ""

    @property
    def can_ask(self) -> bool:
        """Whether its token is good at the API server."""
        return not self.session


SITE: Final = web.AppKey("site", PageSite)


def application(site: PageSite) -> web.Application:
    """Return the application that serves a site."""
    app = web.Application(middlewares=[_guarded], client_max_size=MAX_BODY)
    app[SITE] = site
    for route, view in VIEWS.items():
        for root in ("", _NAMESPACES):
            app.router.add_get(f"{root}{route}", _showing(view))
    if site.running is not None:
        for root in ("", _NAMESPACES):
            app.router.add_get(f"{root}/health", _health)
            app.router.add_get(f"{root}/why", _why)
    app.router.add_get("/", _start)
    app.router.add_get("/namespaces", _choose_namespaces)
    app.router.add_get(LOGIN, _login_form)
    app.router.add_post(LOGIN, _login)
    app.router.add_post("/logout", _logout)
    app.router.add_get("/static/{name}", _static)
    return app


@web.middleware
async def _guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    site = request.app[SITE]
    try:
        if host_of(request) not in site.hosts:
            raise Refused(421, "this server does not answer to that name")
        check_form(request)
    except Refused as refusal:
        # Plain text: nothing of the cluster, and no form for a stranger's page to show.
        response: web.StreamResponse = web.Response(text=f"{refusal}\n", status=refusal.status)
    else:
        response = await _answer(request, handler)
    response.headers.update(HEADERS)
    if isinstance(response, web.Response) and response.body:
        response.enable_compression()
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    site = request.app[SITE]
    try:
        return await handler(request)
    except BadQuery as problem:
        return _problem(400, str(problem))
    except Refused as problem:
        return _problem(problem.status, str(problem))
    except NoPageModel:
        return _problem(503, "there is no snapshot of the cluster at the moment; try again in a minute")
    except web.HTTPException as problem:
        return _problem(problem.status, problem.text or problem.reason)
    except Exception:
        # A defect of ours. The traceback holds no value of a variable, so no token.
        site.say(traceback.format_exc())
        return _problem(500, "an error in the program; its log has the details")


def _problem(status: int, message: str) -> web.Response:
    title = HTTPStatus(status).phrase
    response = _bare("refused.html", status, title=title, message=printable(message))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _bare(template: str, status: int = 200, **values: Any) -> web.Response:
    """Return a page that knows neither a visitor nor a page model."""
    text = rendering.render(template, version=__version__, site_root="", **values)
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")


def _caller(request: web.Request) -> PageCaller | None:
    """Return whose request it is; None where nobody has logged in.

    Raises:
        Refused: the header is no bearer token.
    """
    site = request.app[SITE]
    header = request.headers.get("Authorization")
    if header is not None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not _is_token(token.strip()):
            raise Refused(401, "the Authorization header is not a bearer token")
        return PageCaller(token.strip(), site.header_reviewer)
    session = request.cookies.get(COOKIE, "")
    session_token = site.sessions.token(session) if session else None
    return None if session_token is None else PageCaller(session_token, site.form_reviewer, session)


def _is_token(text: str) -> bool:
    return 0 < len(text) <= _MAX_TOKEN and text.isascii() and text.isprintable() and " " not in text


Prepare = Callable[[PageCaller, Visitor], Awaitable[tuple[View, int, bool]]]
"""Asks what a page needs with its visitor's token; returns its view, its status, and whether it is of this moment."""


def _showing(view: View) -> Handler:
    async def prepare(caller: PageCaller, visitor: Visitor) -> tuple[View, int, bool]:
        return view, 200, False

    async def handler(request: web.Request) -> web.StreamResponse:
        return await _shown(request, prepare)

    return handler


async def _shown(request: web.Request, prepare: Prepare) -> web.StreamResponse:
    """Return a page for the visitor whose request it is."""
    site, caller = request.app[SITE], _caller(request)
    if caller is None:
        return _to(LOGIN)
    named = request.match_info.get("namespaces")
    namespaces = named_namespaces(named) if named is not None else ()
    try:
        async with site.rights.visitor(
            caller.reviewer,
            caller.token,
            request.remote or "",
            namespaces,
            with_lease=site.running is not None and not caller.can_ask,
        ) as visitor:
            view, status, of_now = await prepare(caller, visitor)
            page_model = await site.page_models.current()
            account = Account(",".join(namespaces), visitor.namespaces is None, caller.can_ask)
            text = await _made(
                site, lambda: _text_of(request, view, page_model, visitor, account, of_now=of_now, site=site)
            )
    except Refused as refusal:
        if refusal.status == 401 and caller.session:
            # Its token is not known any more.
            site.sessions.close(caller.session)
            return _forgotten(_to(LOGIN))
        raise
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")


async def _health(request: web.Request) -> web.StreamResponse:
    """How the scheduler is, as far as the visitor may see it."""

    async def prepare(caller: PageCaller, visitor: Visitor) -> tuple[View, int, bool]:
        running = request.app[SITE].running
        assert running is not None  # the route exists only with it
        if not (caller.can_ask or visitor.lease):
            raise Refused(403, _FOR_THIS_PAGE_ONLY)
        try:
            page = health_page(
                await (running.status(caller.token, visitor.user) if caller.can_ask else running.reported())
            )
        except CommandError as error:
            raise Refused(502, str(error)) from error
        return lambda request, page_model: FilledTemplate("health.html", "health", {"page": page}), 200, True

    return await _shown(request, prepare)


async def _why(request: web.Request) -> web.StreamResponse:
    """What the running scheduler says about a pod to the visitor; a list to choose from where none is named."""

    async def prepare(caller: PageCaller, visitor: Visitor) -> tuple[View, int, bool]:
        running, question = request.app[SITE].running, asked_pod(request)
        assert running is not None  # the route exists only with it
        if question is None:
            return show_why, 200, False
        pod, problem, status = None, "", 200
        if caller.can_ask:
            try:
                pod = await running.ask(caller.token, visitor.user, *question)
            except CommandError as error:
                problem, status = str(error), 502
        else:
            problem, status = _FOR_THIS_PAGE_ONLY, 403
        return lambda request, page_model: show_why(request, page_model, pod, problem), status, True

    return await _shown(request, prepare)


async def _made(site: PageSite, make: Callable[[], str]) -> str:
    """Make a page in a thread, one at a time.

    Raises:
        Refused: too many wait already.
    """
    if site.waiting >= _MAX_WAITING:
        raise Refused(503, "too many pages are asked for; try again")
    site.waiting += 1
    try:
        async with site.making:
            return await asyncio.to_thread(make)
    finally:
        site.waiting -= 1


def _text_of(
    request: web.Request,
    view: View,
    everything: PageModel,
    visitor: Visitor,
    account: Account,
    *,
    of_now: bool,
    site: PageSite,
) -> str:
    page_model = cut(everything, visitor)
    shown: FilledTemplate = view(request, page_model)
    navigation = [*_NAVIGATION]
    if visitor.configuration:
        navigation.append((CONFIGURATION, "Configuration"))
    if site.running is not None:
        health = [_HEALTH] if account.can_ask or visitor.lease else []
        navigation = [*health, *navigation, *([_WHY] if account.can_ask else [])]
    values: Mapping[str, Any] = {
        "root": f"/in/{account.namespaces}" if account.namespaces else "",
        "site_root": "",
        "view": shown.view,
        "navigation": navigation,
        "live": False,
        "of_now": of_now,
        "page_model": page_model,
        "moment": None,
        "has_time": True,
        "version": __version__,
        "account": account,
        "most_namespaces": MAX_NAMESPACES,
    }
    return rendering.render(shown.template, **values, **shown.values)


async def _start(request: web.Request) -> web.Response:
    caller = _caller(request)
    return _to(LOGIN if caller is None else await _first(request, caller))


async def _first(request: web.Request, caller: PageCaller) -> str:
    """The path that a caller begins with: health, where there is something to see of it."""
    if request.app[SITE].running is None:
        return "/nodes"
    if caller.can_ask:
        return "/health"
    allowed = await reviewed(caller.reviewer, caller.token, LEASE, request.remote or "")
    return "/health" if allowed == 200 else "/nodes"


async def _choose_namespaces(request: web.Request) -> web.Response:
    """Lead to the pages of the namespaces that the form in a page's head names."""
    text = request.query.get("names", "")
    return _to(f"/in/{','.join(named_namespaces(text))}/decisions" if text.strip() else "/nodes")


async def _login_form(request: web.Request) -> web.Response:
    return _bare("login.html", audience=AUDIENCE, problem="")


async def _login(request: web.Request) -> web.Response:
    """Begin a session with the form's token; a former one of the same browser ends."""
    site = request.app[SITE]
    try:
        token = (await read_form(request)).get("token", "").strip()
        if not _is_token(token):
            raise Refused(400, "this is not a token")
        await _require_for_this_page(site, token, request.remote or "")
    except Refused as refusal:
        return _bare("login.html", refusal.status, audience=AUDIENCE, problem=printable(str(refusal)))
    if old_session := request.cookies.get(COOKIE):
        site.sessions.close(old_session)
    session = site.sessions.open(token, site.form_reviewer.user(token))
    response = _to(await _first(request, PageCaller(token, site.form_reviewer, session)))
    response.set_cookie(
        COOKIE,
        session,
        path="/",
        secure=True,
        httponly=True,
        samesite="Strict",
    )
    return response


async def _require_for_this_page(site: PageSite, token: str, address: str) -> None:
    """Check that a token is known, for this page only, and of somebody who may see something.

    Raises:
        Refused: it is not.
    """
    status = await reviewed(site.form_reviewer, token, NODES, address)
    elsewhere = await reviewed(site.header_reviewer, token, NODES, address)
    if elsewhere in (200, 403):
        raise Refused(403, _GOOD_AT_THE_API_SERVER)
    if elsewhere != 401:
        require_known(elsewhere)
    if status == 403:
        raise Refused(403, "this page is for who may get nodes, and you may not")
    require_known(status)


async def _logout(request: web.Request) -> web.Response:
    if session := request.cookies.get(COOKIE):
        request.app[SITE].sessions.close(session)
    return _forgotten(_to(LOGIN))


def _to(path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": path})


def _forgotten(response: web.Response) -> web.Response:
    response.del_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Strict")
    return response


async def _static(request: web.Request) -> web.Response:
    return rendering.static_response(request.match_info["name"])
