"""Every view of `ui`, for all that goes through them: unit tests, tests in a browser, pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aiohttp import web
from aiohttp.test_utils import TestClient

from secondary_scheduler.cli.ui.app import Site


@dataclass(frozen=True, slots=True)
class View:
    """A page, as it looks for one address.

    Attributes:
        name: of its pictures.
        route: of the application.
        path: of the address, behind the token.
        first_row: it is what the first row of the table at `path` leads to.
        fields: what is typed into its form, by label, before the form is sent.
        running: it exists only with a running cluster.
    """

    name: str
    route: str
    path: str
    first_row: bool = False
    fields: tuple[tuple[str, str], ...] = ()
    running: bool = False


VIEWS = (
    View("health", "/health", "/health", running=True),
    View("nodes", "/nodes", "/nodes"),
    View("nodes-after", "/nodes", "/nodes?by=estimated&resource=memory&group=none&order=name&when=after"),
    View("nodes-by-pool", "/nodes", "/nodes?group=example.com%2Fpool&by=estimated"),
    View("node", "/node", "/node?name=node-0001"),
    View("queue", "/queue", "/queue"),
    View("decisions", "/decisions", "/decisions"),
    View("decision", "/decisions/{number}", "/decisions/1"),
    View("decision-unschedulable", "/decisions/{number}", "/decisions?result=unschedulable", first_row=True),
    View("configuration", "/configuration", "/configuration"),
    View("what-if", "/what-if", "/what-if"),
    View("what-if-changed", "/what-if", "/what-if", fields=(("TargetLoadPacking", "1"),)),
    View("why", "/why", "/why", running=True),
    View("why-pod", "/why", "/why?namespace=shop&name=api-000", running=True),
)
HOSTILE_LABEL = View("nodes-by-label", "/nodes", "/nodes?group=example.com%2Fevil")
"""Of a hostile page model: its groups are named by what a tenant wrote."""
OVER_TIME = View("over-time", "/over-time", "/over-time")
"""Of a recording only."""
_ROW = re.compile(r'<th scope="row" class="name"><a href="[^"]*?(/decisions/\d+)"')


def first_decision(page: str) -> str:
    """The path of the decision that is first in the table of a page's HTML."""
    match = _ROW.search(page)
    assert match is not None, "the table has no row"
    return match[1]


class Pages:
    """A reader with the address that the command prints."""

    def __init__(self, client: TestClient[web.Request, web.Application], site: Site) -> None:
        self.client = client
        self.site = site

    async def get(self, path: str, status: int = 200) -> str:
        response = await self.client.get(f"{self.site.root}{path}", allow_redirects=False)
        text = await response.text()
        assert response.status == status, text
        return text

    async def open(self, view: View) -> str:
        text = await self.get(view.path)
        return await self.get(first_decision(text)) if view.first_row else text
