"""The web application: routes, and what each page is given to show."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
import traceback
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import typer
from aiohttp import web

from scheduler import __version__
from scheduler.config import Configuration
from secondary_scheduler.cli.errors import CommandError, printable
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui import course, live, whatif
from secondary_scheduler.cli.ui.live import LiveCluster
from secondary_scheduler.cli.ui.reading import RecordingPageModels
from secondary_scheduler.views import nodes, rendering
from secondary_scheduler.views.asking import BadQuery, choice, read_form
from secondary_scheduler.views.guarding import HEADERS, MAX_BODY, Handler, Refused, check_form, host_of
from secondary_scheduler.views.health import health_page
from secondary_scheduler.views.pagemodels import PageModel
from secondary_scheduler.views.showing import VIEWS, View, asked_pod, show_decision, show_why

ADDRESS: Final = "127.0.0.1"
_NAMES: Final = frozenset({ADDRESS, "localhost"})
"""With any port: it may be forwarded from another machine (`ssh -L`)."""


def new_token() -> str:
    """Return what the path of every page begins with: 192 random bits."""
    return secrets.token_urlsafe(24)


def check_request(request: web.Request, token: str) -> None:
    """Let a request pass, or say why not.

    Raises:
        Refused: it is not for us, or not from our own pages.
    """
    if host_of(request) not in _NAMES:
        raise Refused(421, f"this server answers to {ADDRESS} and localhost only; open the address that it printed")
    shown_token = request.path.split("/", 2)[1]
    # As bytes: a path may hold anything, and compare_digest takes text of ASCII only.
    if not hmac.compare_digest(shown_token.encode("utf-8", "replace"), token.encode()):
        raise Refused(403, "the address has no valid token; open the one that the command printed")
    check_form(request)


_HEALTH: Final = ("health", "Health")
_NAVIGATION: Final = (
    ("nodes", "Nodes"),
    ("queue", "Queue"),
    ("decisions", "Decisions"),
    ("configuration", "Configuration"),
    ("what-if", "What if"),
)
_OVER_TIME: Final = ("over-time", "Over time")
_BUSY: Final = "another computation is under way; go back and try again"
_WHY: Final = ("why", "Why is it there")


@dataclass(slots=True)
class Site:
    """What one server shows.

    Attributes:
        page_model: the newest one; of a recording, the last moment.
        request, live: what to read again, and from which cluster; None where the page model is of files.
        page_models: every moment of a recording; None where there is none.
        token: first part of every path.
        working: held while something is computed: one thing at a time.
        asking: held while the running cluster is asked, likewise.
        stopping: set when the server ends; what is computed ends, too.
    """

    page_model: PageModel
    request: SnapshotRequest | None = None
    live: LiveCluster | None = None
    page_models: RecordingPageModels | None = None
    token: str = field(default_factory=new_token)
    working: asyncio.Lock = field(default_factory=asyncio.Lock)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def root(self) -> str:
        """What every path begins with."""
        return f"/{self.token}"

    @property
    def first(self) -> str:
        """The path that readers begin with."""
        return f"{self.root}/{_HEALTH[0] if self.live is not None else _NAVIGATION[0][0]}"

    def page(
        self, request: web.Request, template: str, view: str, status: int = 200, *, of_now: bool = False, **values: Any
    ) -> web.Response:
        """Return a page; `of_now` is whether it shows what was read just now, and not the page model."""
        index, navigation = request.get(_MOMENT), [*_NAVIGATION]
        if self.page_models is not None:
            navigation.append(_OVER_TIME)
        if self.live is not None:
            navigation = [_HEALTH, *navigation, _WHY]
        content = rendering.render(
            template,
            root=self.root if index is None else f"{self.root}/at/{index}",
            site_root=self.root,
            view=view,
            navigation=navigation,
            live=self.live is not None,
            of_now=of_now,
            back=request.path_qs if request.method == "GET" else self.first,
            page_model=_page_model(request),
            moment=None
            if self.page_models is None or index is None
            else live.choice_of(request, self.page_models, index, self.root),
            has_time=self.page_model.time > 0,
            version=__version__,
            account=None,
            **values,
        )
        return web.Response(text=content, status=status, content_type="text/html", charset="utf-8")


SITE: Final = web.AppKey("site", Site)
_MOMENT: Final = web.RequestKey("moment", int)
_PAGE_MODEL: Final = web.RequestKey("page_model", PageModel)


def _page_model(request: web.Request) -> PageModel:
    """Return what a request is about."""
    page_model: PageModel = request.get(_PAGE_MODEL, request.app[SITE].page_model)
    return page_model


def application(site: Site) -> web.Application:
    """Return the application that serves a site."""
    app = web.Application(middlewares=[_guarded], client_max_size=MAX_BODY)
    app[SITE] = site
    for path, handler in (
        ("/", _start),
        *((path, _decision if view is show_decision else _showing(view)) for path, view in VIEWS.items()),
        ("/what-if", _what_if),
        *((("/over-time", _over_time),) if site.page_models is not None else ()),
    ):
        for root in _roots(site):
            app.router.add_get(f"{root}{path}", handler)
    for root in _roots(site):
        app.router.add_post(f"{root}/what-if", _what_if_changed)
    app.router.add_get(f"{site.root}/static/{{name}}", _static)
    if site.live is not None:
        app.router.add_get(f"{site.root}/health", _health)
        app.router.add_get(f"{site.root}/why", _why)
        app.router.add_post(f"{site.root}/refresh", _refresh)
    app.on_shutdown.append(_stop_working)
    return app


def _roots(site: Site) -> tuple[str, ...]:
    return (site.root,) if site.page_models is None else (site.root, f"{site.root}{live.PREFIX}")


async def _stop_working(app: web.Application) -> None:
    app[SITE].stopping.set()


@web.middleware
async def _guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    site = request.app[SITE]
    try:
        check_request(request, site.token)
    except Refused as refusal:
        # Plain text: whoever has no token learns nothing about the cluster, and no link has the token in it.
        response: web.StreamResponse = web.Response(text=f"{refusal}\n", status=refusal.status)
    else:
        response = await _answer(site, request, handler)
    response.headers.update(HEADERS)
    if isinstance(response, web.Response) and response.body:
        response.enable_compression()
    return response


async def _answer(site: Site, request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        if site.page_models is not None:
            request[_MOMENT] = index = live.moment_of(request, site.page_models)
            request[_PAGE_MODEL] = site.page_models.at(index)
            if target := live.moved(request, site.page_models, site.root):
                return web.Response(status=303, headers={"Location": target})
        return await handler(request)
    except BadQuery as problem:
        return _problem_page(request, 400, str(problem))
    except web.HTTPException as problem:
        return _problem_page(request, problem.status, problem.text or problem.reason)
    except Exception:
        # A defect of ours: the page still has our headers, and who started the command reads more.
        traceback.print_exc()
        return _problem_page(request, 500, "an error in the program; the command's output has the details")


def _problem_page(request: web.Request, status: int, message: str) -> web.Response:
    title = HTTPStatus(status).phrase
    return request.app[SITE].page(request, "problem.html", "", status, title=title, message=printable(message))


async def _start(request: web.Request) -> web.Response:
    return web.Response(status=303, headers={"Location": request.app[SITE].first})


async def _static(request: web.Request) -> web.Response:
    return rendering.static_response(request.match_info["name"])


def _showing(view: View) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        shown = view(request, _page_model(request))
        return request.app[SITE].page(request, shown.template, shown.view, **shown.values)

    return handler


async def _decision(request: web.Request) -> web.StreamResponse:
    site = request.app[SITE]
    histories = site.page_models.course.histories if site.page_models is not None else {}
    shown = show_decision(request, _page_model(request), lambda key: histories.get(key, ()))
    return site.page(request, shown.template, shown.view, **shown.values)


async def _over_time(request: web.Request) -> web.Response:
    site = request.app[SITE]
    assert site.page_models is not None  # the route exists only with them
    resource = choice(request, "resource", nodes.RESOURCES, "cpu")
    timeline = course.timeline(site.page_models.course, site.page_models.replayable.taken_over, resource)
    return site.page(
        request, "overtime.html", "over-time", shown=timeline, resource=resource, remarks=site.page_models.remarks
    )


async def _what_if(request: web.Request) -> web.Response:
    site = request.app[SITE]
    names = _page_model(request).configuration.scheduler_names
    form = whatif.form_of(_page_model(request).configuration, choice(request, "profile", names, names[0]), {})
    over = whatif.usual_pods(_page_model(request))
    return site.page(request, "whatif.html", "what-if", form=form, over=over, result=None, problems=(), submitted=False)


async def _what_if_changed(request: web.Request) -> web.Response:
    """Decide again with what the form says. The server goes on answering meanwhile."""
    site = request.app[SITE]
    page_model = _page_model(request)
    entered = await read_form(request)
    names = page_model.configuration.scheduler_names
    profile = entered.get("profile", names[0])
    if profile not in names:
        raise BadQuery(f"profile: one of {', '.join(names)}")
    over = entered.get("over", whatif.usual_pods(page_model))
    if over not in whatif.PODS or (over == whatif.ALL and page_model.place_again is None):
        raise BadQuery(f"over: one of {', '.join(whatif.PODS)}")
    form = whatif.form_of(page_model.configuration, profile, entered)
    result: whatif.WhatIf | None = None
    problems: tuple[str, ...] = ()
    try:
        if form.changes:
            changed = whatif.changed_configuration(page_model.configuration, form)
            if site.working.locked():
                raise web.HTTPServiceUnavailable(text=_BUSY)
            async with site.working:
                result = await asyncio.to_thread(_compare, site, page_model, changed, over)
    except whatif.BadChange as bad:
        problems = bad.lines
    except CommandError as error:
        problems = (str(error),)
    status = 400 if problems else 200
    values: dict[str, Any] = {"form": form, "over": over, "result": result, "problems": problems}
    return site.page(request, "whatif.html", "what-if", status, submitted=True, **values)


def _compare(site: Site, page_model: PageModel, changed: Configuration, over: str) -> whatif.WhatIf:
    stopped = site.stopping.is_set
    if over == whatif.ALL and page_model.place_again is not None:
        before, after = (
            page_model.place_again(configuration, whatif.LIMITS, stopped)
            for configuration in (page_model.configuration, changed)
        )
        return whatif.compare(before, after)
    return whatif.compare(page_model.run, page_model.decide(changed, whatif.LIMITS, stopped))


async def _health(request: web.Request) -> web.Response:
    """How the schedulers are, read at this moment."""
    site = request.app[SITE]
    assert site.live is not None  # the route exists only with it
    try:
        async with site.asking:
            document = await asyncio.to_thread(site.live.status)
    except CommandError as error:
        raise web.HTTPBadGateway(text=str(error)) from error
    return site.page(request, "health.html", "health", of_now=True, page=health_page(document))


async def _why(request: web.Request) -> web.Response:
    """What the scheduler in the cluster says about a pod; a list to choose from where none is named."""
    site, question = request.app[SITE], asked_pod(request)
    assert site.live is not None  # the route exists only with it
    pod, problem = None, ""
    if question is not None:
        try:
            async with site.asking:
                pod = await asyncio.to_thread(site.live.ask, *question)
        except CommandError as error:
            problem = str(error)
    shown = show_why(request, _page_model(request), pod, problem)
    status = 502 if problem else 200
    return site.page(request, shown.template, shown.view, status, of_now=question is not None, **shown.values)


async def _refresh(request: web.Request) -> web.Response:
    """Take a new snapshot, decide on it, and lead back to the page; the old page model stays where that fails."""
    site = request.app[SITE]
    back = (await read_form(request)).get("back", "") if request.body_exists else ""
    if site.working.locked():
        raise web.HTTPServiceUnavailable(text=_BUSY)
    assert site.live is not None  # the routes exist only with them
    assert site.request is not None
    lines: list[str] = []
    try:
        async with site.working:
            site.page_model = await asyncio.to_thread(site.live.read, site.request, lines.append)
    except CommandError as error:
        raise web.HTTPBadGateway(text=f"no new snapshot: {error}") from error
    except typer.Exit as error:
        raise web.HTTPConflict(text="the configuration is not valid any more; the command's output says why") from error
    # A path below our own root leads nowhere else, whatever a form says.
    is_below = back.startswith(f"{site.root}/") and back.isascii() and back.isprintable()
    return web.Response(status=303, headers={"Location": back if is_below else site.first})
