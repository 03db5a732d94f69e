"""A page with a fake API server behind it, and a browser that sends what it is told."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie

from aiohttp import ClientSession, DummyCookieJar
from aiohttp.test_utils import TestServer

from secondary_scheduler.page.rights import Rights
from secondary_scheduler.page.running import Running
from secondary_scheduler.page.sharing import SharedPageModel
from secondary_scheduler.page.site import COOKIE, PageSite, Sessions, application
from secondary_scheduler.views.pagemodels import PageModel
from tests.support.clock import Clock

HOST = "page.example.com"
OWN = {"Host": HOST, "Origin": f"https://{HOST}", "Sec-Fetch-Site": "same-origin"}
ALL = frozenset({"nodes", "pods", "configuration"})


class FakeReviewer:
    """A fake Authorizer: tokens with their rights, as `secondary_scheduler.page.rights` names them."""

    def __init__(self, **tokens: frozenset[str]) -> None:
        self.tokens = tokens
        self.problem: Exception | None = None
        self.flooded = False
        self.asked: list[tuple[str, str]] = []

    async def status(self, token: str, path: str, address: str = "") -> int:
        self.asked.append((token, path))
        if self.problem is not None:
            raise self.problem
        if self.flooded:
            return 429
        rights = self.tokens.get(token)
        return 401 if rights is None else 200 if path in rights else 403

    def user(self, token: str) -> str:
        return token.partition("#")[0]


@dataclass(slots=True)
class Answer:
    status: int
    text: str
    headers: Mapping[str, str]
    cookies: list[str]

    @property
    def session(self) -> str:
        """What the cookie of a login holds."""
        (line,) = [line for line in self.cookies if line.startswith(f"{COOKIE}=")]
        return SimpleCookie(line)[COOKIE].value


@dataclass(slots=True)
class Visit:
    """A running page.

    Attributes:
        form, header: what the API server knows, for tokens of the form and of the header.
        lines: of the log.
    """

    server: TestServer
    site: PageSite
    form: FakeReviewer
    header: FakeReviewer
    clock: Clock
    lines: list[str] = field(default_factory=list)

    async def send(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None, **form: str
    ) -> Answer:
        """Send a request as it is: no cookie is kept, and no redirect followed."""
        sent = {"Host": HOST, **(headers or {})}
        async with (
            ClientSession(cookie_jar=DummyCookieJar()) as session,
            session.request(
                method, self.server.make_url(path), headers=sent, data=form or None, allow_redirects=False
            ) as response,
        ):
            cookies = response.headers.getall("Set-Cookie", [])
            return Answer(response.status, await response.text(), dict(response.headers), cookies)

    async def get(self, path: str, token: str = "", session: str = "") -> Answer:
        """Get a page with a token in the header, or with the cookie of a session."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Cookie": f"{COOKIE}={session}"} if session else {}
        return await self.send(path, headers=headers)

    async def log_in(self, token: str, session: str = "") -> Answer:
        """Send the form."""
        headers = {**OWN, **({"Cookie": f"{COOKIE}={session}"} if session else {})}
        return await self.send("/login", "POST", headers, token=token)


@contextlib.asynccontextmanager
async def visiting(page_model: PageModel, running: Running | None = None) -> AsyncIterator[Visit]:
    """Serve a page model, and what is said of the running scheduler; `admin` may see all, `viewer` the pods of `ours`,
    `nobody` nothing, `counter` nodes only."""
    tokens = {
        "admin": ALL,
        "viewer": frozenset({"nodes", "pods/ours"}),
        "counter": frozenset({"nodes"}),
        "nobody": frozenset[str](),
    }
    form, header, clock, lines = FakeReviewer(**tokens), FakeReviewer(), Clock(), list[str]()
    header.tokens = {f"api-{name}": rights for name, rights in tokens.items()}
    shared = SharedPageModel(lambda: page_model, lines.append, clock)
    site = PageSite(shared, frozenset({HOST}), form, header, lines.append, running, Sessions(clock), Rights(clock))
    server = TestServer(application(site), host="127.0.0.1")
    async with server:
        yield Visit(server, site, form, header, clock, lines)
