"""Prefetched pages of a list, against the test's own server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from scheduler.kube.client import ClientConfig, Expired, KubeClient, PageReader, ResponseTooLarge

EARLY = 6
"""Pages that are prefetched at most."""


class Lists:
    """Serves a list of so many pages; the token of page n is `n`. Remembers what was asked for.

    An answer is as long as if each object asked for were of `length` bytes.
    """

    def __init__(self, pages: int, length: int = 0) -> None:
        self.pages = pages
        self.length = length
        self.asked: list[tuple[str, str]] = []
        self.arrival = asyncio.Event()
        self.selectors: set[str] = set()
        self.expired: set[str] = set()
        self.limits: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        token = request.query.get("continue", "")
        self.asked.append((request.path, token))
        self.arrival.set()
        self.limits.append(request.query["limit"])
        self.selectors.add(request.query.get("fieldSelector", ""))
        if token in self.expired:
            return web.json_response({"kind": "Status", "code": 410, "reason": "Expired"}, status=410)
        number = int(token or 0)
        following = str(number + 1) if number + 1 < self.pages else ""
        page = {"metadata": {"continue": following, "resourceVersion": "7"}, "items": [number]}
        return web.Response(text=json.dumps(page).ljust(int(request.query["limit"]) * self.length))

    def tokens(self) -> list[str]:
        return [token for _, token in self.asked]


@asynccontextmanager
async def serving(lists: Lists, max_bytes: int = 1 << 30) -> AsyncIterator[KubeClient]:
    application = web.Application()
    application.router.add_get("/api/v1/pods", lists.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with KubeClient(ClientConfig(server=f"http://{host}:{port}"), max_bytes=max_bytes) as client:
            yield client
    finally:
        await runner.cleanup()


async def asked(lists: Lists, pages: int) -> None:
    """Wait until so many pages were asked for."""
    async with asyncio.timeout(60):
        while len(lists.asked) < pages:
            lists.arrival.clear()
            await lists.arrival.wait()


async def at_rest(reader: PageReader) -> None:
    """Wait until all pages that it reads ahead have come, those too that it asks for when one of them comes."""
    async with asyncio.timeout(60):
        while under_way := [page for page in reader._ahead.values() if not page.done()]:
            await asyncio.wait(under_way)


async def read(reader: PageReader) -> list[int]:
    """All pages' items, as a reflector reads them."""
    token, items = "", []
    while True:
        page = msgspec.json.decode(await reader.request_page(token))
        items += page["items"]
        token = page["metadata"]["continue"]
        if not token:
            return items


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("pages", [1, 2, 5, 40])
async def test_every_page_is_read_once_and_in_order(pages: int, early: bool) -> None:
    lists = Lists(pages)
    async with serving(lists) as client:
        reader = PageReader(client, "/api/v1/pods", {"fieldSelector": "status.phase!=Failed", "labelSelector": ""})
        if early:
            reader.prefetch()
            await asked(lists, min(pages, EARLY))
        assert await read(reader) == list(range(pages))
        assert lists.tokens() == ["", *map(str, range(1, pages))]
        assert lists.selectors == {"status.phase!=Failed"}


async def test_prefetching_is_bounded() -> None:
    lists = Lists(100)
    async with serving(lists) as client:
        reader = PageReader(client, "/api/v1/pods")
        reader.prefetch()
        await at_rest(reader)
        assert len(lists.asked) == EARLY
        reader.close()


async def test_prefetching_ends_when_the_first_page_is_requested() -> None:
    lists = Lists(30)
    async with serving(lists) as client:
        reader = PageReader(client, "/api/v1/pods")
        reader.prefetch()
        assert await read(reader) == list(range(30))
        assert sorted(map(int, lists.tokens()[1:])) == list(range(1, 30))


async def test_a_restarted_list_requests_every_page_again() -> None:
    lists = Lists(3)
    async with serving(lists) as client:
        reader = PageReader(client, "/api/v1/pods")
        reader.prefetch()
        await asked(lists, 3)
        assert msgspec.json.decode(await reader.request_page(""))["items"] == [0]
        assert await read(reader) == [0, 1, 2]
        assert lists.tokens() == ["", "1", "2", "", "1", "2"]


async def test_a_failure_reaches_the_request_for_that_page_and_a_retry_is_a_new_request() -> None:
    lists = Lists(3)
    lists.expired.add("1")
    async with serving(lists) as client:
        reader = PageReader(client, "/api/v1/pods")
        reader.prefetch()
        await asked(lists, 2)
        with pytest.raises(Expired):
            await read(reader)
        lists.expired.clear()
        assert await read(reader) == [0, 1, 2]


@pytest.mark.parametrize(
    ("length", "limits"),
    [(10, ["500", "2000", "2000"]), (4 << 10, ["500", "1023", "1023"]), (40 << 10, ["500", "500", "500"])],
)
async def test_pages_are_as_long_as_the_objects_allow(length: int, limits: list[str]) -> None:
    lists = Lists(3, length)
    async with serving(lists) as client:
        assert await read(PageReader(client, "/api/v1/pods")) == [0, 1, 2]
        assert lists.limits == limits


async def test_after_a_page_that_is_too_large_the_following_ones_are_smaller() -> None:
    lists = Lists(3, length=1024)
    async with serving(lists, max_bytes=100_000) as client:
        reader = PageReader(client, "/api/v1/pods")
        with pytest.raises(ResponseTooLarge):
            await reader.request_page("")
        for token in ("", "1", "2"):
            await reader.request_page(token, 62)
        assert lists.limits == ["500", "62", "62", "62"]


async def test_the_next_page_is_on_its_way_as_soon_as_one_has_come_and_no_other() -> None:
    lists = Lists(5)
    async with serving(lists) as client:
        reader = PageReader(client, "/api/v1/pods")
        await reader.request_page("")
        await at_rest(reader)
        assert lists.tokens() == ["", "1"]
        assert msgspec.json.decode(await reader.request_page("1"))["items"] == [1]
        await asked(lists, 3)
        assert lists.tokens() == ["", "1", "2"]
        reader.close()


async def test_two_lists_of_one_collection_never_get_each_others_pages() -> None:
    lists = Lists(8)
    async with serving(lists) as client:
        reader = PageReader(client, "/api/v1/pods")
        assert await asyncio.gather(read(reader), read(reader), read(reader)) == [list(range(8))] * 3


async def test_closing_cancels_pending_requests() -> None:
    lists = Lists(100)
    async with serving(lists) as client:
        reader = PageReader(client, "/api/v1/pods")
        reader.prefetch()
        page = reader._ahead[""]
        reader.close()
        await asyncio.wait([page])
        await at_rest(reader)
        assert len(lists.asked) <= 1
