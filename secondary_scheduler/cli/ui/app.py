"""The web application: routes, and what each page is given to show."""

from __future__ import annotations

import asyncio
import threading
import traceback
from dataclasses import dataclass, field
from typing import Any, Final

import typer
from aiohttp import web

from scheduler import __version__
from scheduler.config import Configuration, differences
from secondary_scheduler.cli.errors import CommandError, printable
from secondary_scheduler.cli.simulation.results import RESULTS
from secondary_scheduler.cli.ui import decisions as decided
from secondary_scheduler.cli.ui import guard, nodes, rendering, waiting, whatif
from secondary_scheduler.cli.ui.asking import BadQuery, choice, page_number, text
from secondary_scheduler.cli.ui.configuration import configuration_page
from secondary_scheduler.cli.ui.live import LiveCluster
from secondary_scheduler.cli.ui.nodepage import node_page
from secondary_scheduler.cli.ui.runs import run_simulation
from secondary_scheduler.cli.ui.scenes import Scene, SceneRequest

_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_NAVIGATION: Final = (
    ("nodes", "Nodes"),
    ("queue", "Queue"),
    ("decisions", "Decisions"),
    ("configuration", "Configuration"),
    ("what-if", "What if"),
)
_BUSY: Final = "another computation is under way; go back and try again"
_RUNNING: Final = ("running", "Running scheduler")
_TITLES: Final = {400: "This page needs other parameters", 403: "Not for you", 404: "Not here", 421: "Another address"}


@dataclass(slots=True)
class Site:
    """What one server shows.

    Attributes:
        scene: the newest one.
        request, live: what to read again, and from which cluster; None where the scene is of files.
        token: first part of every path.
        working: held while something is computed: one thing at a time.
        stopping: set when the server ends; what is computed ends, too.
    """

    scene: Scene
    request: SceneRequest | None = None
    live: LiveCluster | None = None
    token: str = field(default_factory=guard.new_token)
    working: asyncio.Lock = field(default_factory=asyncio.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def root(self) -> str:
        """What every path begins with."""
        return f"/{self.token}"

    def page(self, template: str, view: str, status: int = 200, **values: Any) -> web.Response:
        """Return a page."""
        content = rendering.render(
            template,
            root=self.root,
            view=view,
            navigation=_NAVIGATION if self.live is None else (*_NAVIGATION, _RUNNING),
            live=self.live is not None,
            scene=self.scene,
            has_time=self.scene.time > 0,
            version=__version__,
            **values,
        )
        return web.Response(text=content, status=status, content_type="text/html", charset="utf-8")


SITE: Final = web.AppKey("site", Site)


def application(site: Site) -> web.Application:
    """Return the application that serves a site."""
    app = web.Application(middlewares=[_guarded], client_max_size=guard.MOST_BODY)
    app[SITE] = site
    for path, handler in (
        ("/", _start),
        ("/nodes", _nodes),
        ("/node", _node),
        ("/queue", _queue),
        ("/decisions", _decisions),
        ("/decisions/{number}", _decision),
        ("/configuration", _configuration),
        ("/what-if", _what_if),
        ("/static/{name}", _static),
    ):
        app.router.add_get(f"{site.root}{path}", handler)
    app.router.add_post(f"{site.root}/what-if", _what_if_changed)
    if site.live is not None:
        app.router.add_get(f"{site.root}/running", _running)
        app.router.add_post(f"{site.root}/refresh", _refresh)
    app.on_shutdown.append(_stop_working)
    return app


async def _stop_working(app: web.Application) -> None:
    app[SITE].stopping.set()


@web.middleware
async def _guarded(request: web.Request, handler: guard.Handler) -> web.StreamResponse:
    site = request.app[SITE]
    try:
        guard.check_request(request, site.token)
    except guard.Refused as refusal:
        # Plain text: whoever has no token learns nothing about the cluster, and no link has the token in it.
        response: web.StreamResponse = web.Response(text=f"{refusal}\n", status=refusal.status)
    else:
        try:
            response = await handler(request)
        except BadQuery as problem:
            response = _problem_page(site, 400, str(problem))
        except web.HTTPException as problem:
            response = _problem_page(site, problem.status, problem.text or problem.reason)
        except Exception:
            # A defect of ours: the page still has our headers, and who started the command reads more.
            traceback.print_exc()
            response = _problem_page(site, 500, "an error in the program; the command's output has the details")
    response.headers.update(guard.HEADERS)
    if isinstance(response, web.Response) and response.body:
        response.enable_compression()
    return response


def _problem_page(site: Site, status: int, message: str) -> web.Response:
    title = _TITLES.get(status, "This does not work")
    return site.page("problem.html", "", status, title=title, message=printable(message))


async def _start(request: web.Request) -> web.Response:
    return web.Response(status=303, headers={"Location": f"{request.app[SITE].root}/nodes"})


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    try:
        content = rendering.static_file(name)
    except KeyError:
        raise web.HTTPNotFound(text=f"there is no file {name}") from None
    return web.Response(body=content, content_type=_TYPES[name.rpartition(".")[2]], charset="utf-8")


async def _nodes(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run = site.scene.run
    moment = choice(request, "when", ("before", "after"), "before")
    columns = run.before if moment == "before" else run.after
    keys = nodes.group_keys(columns)
    shown = {
        "when": moment,
        "by": choice(request, "by", nodes.MEASURES, nodes.MEASURED if site.scene.run.load else nodes.REQUESTED),
        "resource": choice(request, "resource", nodes.RESOURCES, "cpu"),
        "group": choice(
            request, "group", (nodes.NO_GROUPS, *keys), nodes.ZONE if nodes.ZONE in keys else nodes.NO_GROUPS
        ),
        "order": choice(request, "order", nodes.ORDERS, "highest"),
    }
    heat = nodes.heat_map(columns, shown["by"], shown["resource"], shown["group"], shown["order"])
    return site.page("nodes.html", "nodes", shown=shown, heat=heat, keys=keys, remarks=site.scene.remarks)


async def _node(request: web.Request) -> web.Response:
    site = request.app[SITE]
    name = text(request, "name")
    page = node_page(site.scene, name)
    if page is None:
        raise web.HTTPNotFound(text=f"the snapshot has no node {name}")
    return site.page("node.html", "nodes", node=page)


async def _queue(request: web.Request) -> web.Response:
    site = request.app[SITE]
    shown = waiting.queues(site.scene, page_number(request))
    return site.page("queue.html", "queue", queues=shown, others=waiting.other_schedulers(site.scene))


async def _configuration(request: web.Request) -> web.Response:
    site = request.app[SITE]
    shown = configuration_page(site.scene.configuration, site.scene.old)
    return site.page("configuration.html", "configuration", shown=shown)


async def _what_if(request: web.Request) -> web.Response:
    site = request.app[SITE]
    names = site.scene.configuration.scheduler_names
    form = whatif.form_of(site.scene.configuration, choice(request, "profile", names, names[0]), {})
    return site.page("whatif.html", "what-if", form=form, result=None, changes=(), problems=(), submitted=False)


async def _what_if_changed(request: web.Request) -> web.Response:
    """Decide again with what the form says. The server goes on answering meanwhile."""
    site = request.app[SITE]
    scene = site.scene
    posted = await request.post()
    entered = {name: value for name, value in posted.items() if isinstance(value, str)}
    names = scene.configuration.scheduler_names
    profile = entered.get("profile", names[0])
    if profile not in names:
        raise BadQuery(f"profile: one of {', '.join(names)}")
    form = whatif.form_of(scene.configuration, profile, entered)
    result: whatif.Comparison | None = None
    problems: tuple[str, ...] = ()
    lines: list[str] = []
    try:
        if form.changes:
            changed = whatif.changed_configuration(scene.configuration, form)
            lines = differences(scene.configuration, changed)
            if site.working.locked():
                raise web.HTTPServiceUnavailable(text=_BUSY)
            async with site.working:
                result = await asyncio.to_thread(_compare, site, scene, changed)
    except whatif.BadChange as bad:
        problems = bad.lines
    except CommandError as error:
        problems = (str(error),)
    status = 400 if problems else 200
    values = {"form": form, "result": result, "changes": lines, "problems": problems, "submitted": True}
    return site.page("whatif.html", "what-if", status, **values)


def _compare(site: Site, scene: Scene, changed: Configuration) -> whatif.Comparison:
    run = run_simulation(
        scene.cluster,
        changed,
        scene.conditions,
        limits=whatif.LIMITS,
        stopped=site.stopping.is_set,
    )
    return whatif.compare(scene.run, run)


async def _running(request: web.Request) -> web.Response:
    """What the scheduler in the cluster says about a pod; a form where none is named."""
    site = request.app[SITE]
    namespace, name = text(request, "namespace"), text(request, "name")
    pod, problem = None, ""
    if site.live is not None and namespace and name:
        try:
            async with site.working:
                pod = await asyncio.to_thread(site.live.ask, namespace, name)
        except CommandError as error:
            problem = str(error)
    status = 502 if problem else 200
    return site.page("running.html", "running", status, namespace=namespace, name=name, pod=pod, problem=problem)


async def _refresh(request: web.Request) -> web.Response:
    """Take a new snapshot, and decide on it; the old scene stays where that fails."""
    site = request.app[SITE]
    if site.working.locked():
        raise web.HTTPServiceUnavailable(text=_BUSY)
    assert site.live is not None  # the routes exist only with them
    assert site.request is not None
    lines: list[str] = []
    try:
        async with site.working:
            site.scene = await asyncio.to_thread(site.live.read, site.request, lines.append)
    except CommandError as error:
        raise web.HTTPBadGateway(text=f"no new snapshot: {error}") from error
    except typer.Exit as error:
        raise web.HTTPConflict(text="the configuration is not valid any more; the command's output says why") from error
    return web.Response(status=303, headers={"Location": f"{site.root}/nodes"})


async def _decisions(request: web.Request) -> web.Response:
    site = request.app[SITE]
    choices = decided.choices_of(site.scene.run)
    wanted = decided.Filter(
        text=text(request, "q"),
        result=choice(request, "result", ("", *RESULTS), ""),
        namespace=choice(request, "namespace", ("", *choices.namespaces), ""),
        plugin=choice(request, "plugin", ("", *choices.plugins), ""),
    )
    shown = decided.listed(site.scene.run, wanted, page_number(request))
    return site.page("decisions.html", "decisions", wanted=wanted, choices=choices, shown=shown)


async def _decision(request: web.Request) -> web.Response:
    site = request.app[SITE]
    number = request.match_info["number"]
    every = site.scene.run.decisions
    if not (number.isascii() and number.isdigit() and len(number) < 8 and 1 <= int(number) <= len(every)):
        raise web.HTTPNotFound(text=f"there is no decision {number}; the last one is {len(every)}")
    shown = decided.decision_page(every[int(number) - 1], len(every))
    return site.page("decision.html", "decisions", shown=shown)
