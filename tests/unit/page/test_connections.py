"""How many connections the page serves, whose go first, and what is left to a user who has logged in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from scheduler.connectionlimits import ConnectionLimits
from secondary_scheduler.page.site import COOKIE
from tests.support.rawclient import Client, connect, send_garbage
from tests.support.servedpage import page_process
from tests.support.sharedpagemodels import shared_page_model
from tests.support.visiting import HOST, Visit, visiting
from tests.support.waiting import eventually_on_loop

LOGIN, NODES = (f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode() for path in ("/login", "/nodes"))
PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


class Page:
    """A page with its probes, as the process serves them, and its clients, who all have one address."""

    def __init__(self, visit: Visit, port: int, probes: int) -> None:
        self.visit, self.port, self.probes = visit, port, probes
        self.clients: list[Client] = []

    async def client(self, sent: bytes = b"", port: int | None = None) -> Client:
        client = await connect(port or self.port, sent)
        self.clients.append(client)
        return client

    async def idle(self) -> Client:
        """A connection that has been answered, and is kept by its client."""
        client = await self.client(LOGIN)
        assert (await client.answer()).startswith("200 ")
        return client

    async def nodes_as(self, user: str) -> bytes:
        """The request for a page, of a user who logs in."""
        session = (await self.visit.log_in(user)).session
        return NODES[:-2] + f"Cookie: {COOKIE}={session}\r\n\r\n".encode()

    @property
    def said(self) -> list[str]:
        """The log, but for where it is served."""
        return [line for line in self.visit.lines if not line.startswith("serving ")]


@contextlib.asynccontextmanager
async def page_of(most: int) -> AsyncIterator[Page]:
    """A page with so many connections."""
    async with visiting(shared_page_model()) as visit:
        limits = ConnectionLimits(most, None)
        async with page_process(visit.site, visit.lines, limits) as (port, probes):
            page = Page(visit, port, probes)
            try:
                yield page
            finally:
                for client in page.clients:
                    client.writer.transport.abort()


async def test_all_visitors_share_the_connections_and_the_one_idle_for_longest_goes_first() -> None:
    """They come over one Ingress, so one address may have them all."""
    async with page_of(8) as page:
        longest, *others = [await page.idle() for _ in range(8)]
        assert page.said == []
        newcomer = await page.idle()
        await longest.ended()
        assert page.said == ["connections dropped: 1, the last by 127.0.0.1: more than 8 in all"]
        for client in (*others, newcomer):
            client.writer.write(LOGIN)
            assert (await client.answer()).startswith("200 ")


async def test_a_user_with_more_connections_than_there_are_has_eight_pages_and_leaves_the_rest() -> None:
    async with page_of(12) as page:
        of_admin, of_viewer = await page.nodes_as("admin"), await page.nodes_as("viewer")
        async with page.visit.site.making:
            first = [await page.client(of_admin) for _ in range(8)]
            await eventually_on_loop(lambda: page.visit.site.waiting == 8, "eight wait for their pages")
            refused = [await page.client(of_admin) for _ in range(20)]
            answer = await refused[-1].answer()
            assert answer.startswith("429 ")
            assert "Too many pages at a time; wait some seconds" in answer
            other = await page.client(of_viewer)
            await eventually_on_loop(lambda: page.visit.site.waiting == 9, "another user waits for a page")
        for client in (*first, other):
            assert (await client.answer()).startswith("200 ")
        await refused[0].ended()


async def test_where_all_connections_are_answered_a_newcomer_is_reset_and_the_probes_are_not() -> None:
    async with page_of(2) as page:
        request = await page.nodes_as("admin")
        async with page.visit.site.making:
            busy = [await page.client(request) for _ in range(2)]
            await eventually_on_loop(lambda: page.visit.site.waiting == 2, "all are being answered")
            with pytest.raises(ConnectionError):
                await page.client(LOGIN)
            assert page.said == ["connections dropped: 1, the last by 127.0.0.1: more than 2 in all"]
            assert (await (await page.client(PROBE, page.probes)).answer()) == "200 ok"
        assert [(await client.answer())[:4] for client in busy] == ["200 ", "200 "]
        await page.idle()


async def test_requests_that_cannot_be_read_are_counted_in_the_log_of_page_and_probes() -> None:
    async with page_of(256) as page:
        for port in (page.port, page.probes):
            lines = await asyncio.to_thread(send_garbage, port, 30, tls=True)
            assert set(lines) == {b"HTTP/1.0 400 Bad Request"}
    first, *_, last = page.said
    assert first.startswith("malformed requests: 1, the last by 127.0.0.1: ")
    assert last.startswith("malformed requests: 29, ")
    assert len(page.said) == 4
    assert "\n" not in "".join(page.said)
