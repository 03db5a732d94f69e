"""The pages of a list: the API server writes the next one while a page is decoded, the first ones while we start."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from scheduler.kube.client.http import KubeClient
from scheduler.kube.model import continue_token

PAGE: Final = 2000
"""Objects asked for at most. The API server pays for pages, not only for objects: 30,000 pods in pages of 500 cost it a
quarter more."""
_FIRST: Final = 500
_BYTES: Final = 4 << 20
"""What a page should be long: longer ones hold up the event loop, which decodes one at a time."""
_EARLY: Final = 6
"""Pages read before the first one is requested, at most: they are kept as they came."""
_AHEAD: Final = 1
"""Pages read before they are requested, from then on."""


class PageReader:
    """Reads the list of one collection page by page, and asks for the next page as soon as one has come."""

    def __init__(
        self, client: KubeClient, path: str, selectors: Mapping[str, str] | None = None, *, timeout: float = 120.0
    ) -> None:
        """Configure; `selectors` are `fieldSelector` and `labelSelector`, empty ones are left out. Seconds."""
        self.path = path
        self.selectors = {name: value for name, value in (selectors or {}).items() if value}
        self._client = client
        self._timeout = timeout
        self._limit = _FIRST
        self._page_limit = PAGE
        self._ahead: dict[str, asyncio.Task[bytes]] = {}
        """By the tokens that name them: two lists of the collection, one of them a refresh, never get each other's."""
        self._requested = False

    def prefetch(self) -> None:
        """Read page after page on the running loop until the first one is requested, at most `_EARLY` of them."""
        self._ahead[""] = self._request("")

    def request_page(self, token: str, page_limit: int = PAGE) -> asyncio.Task[bytes]:
        """Request a page: the first one without a token, else the one that the previous page's continue token names.

        It has at most `page_limit` objects, fewer where they are long; one that was read ahead may have more.
        Requesting the first page again discards what was read ahead. The task raises KubeError.
        """
        if not token and self._requested:
            self.close()
        self._requested = True
        self._page_limit = page_limit
        page = self._ahead.pop(token, None)
        if page is None:
            return self._request(token)
        if page.done():
            # It filled the bound itself when it came, so that the next page was not asked for then.
            self._read_on(page)
        return page

    def close(self) -> None:
        """Cancel pages that nobody requested."""
        self._requested = True
        while self._ahead:
            self._ahead.popitem()[1].cancel()

    def _read_on(self, page: asyncio.Task[bytes]) -> None:
        # A failure is raised to the caller that requests the page.
        if page.cancelled() or page.exception() or len(self._ahead) >= (_AHEAD if self._requested else _EARLY):
            return
        token = continue_token(page.result())
        if token:
            self._ahead[token] = self._request(token)

    def _request(self, token: str) -> asyncio.Task[bytes]:
        request = asyncio.create_task(self._read(token, min(self._page_limit, self._limit)))
        request.add_done_callback(self._read_on)
        return request

    async def _read(self, token: str, limit: int) -> bytes:
        params: dict[str, str | int] = {**self.selectors, "limit": limit}
        if token:
            params["continue"] = token
        page = await self._client.get(self.path, params, timeout=self._timeout)
        self._limit = max(_FIRST, min(PAGE, limit * _BYTES // (len(page) + 1)))
        return page
