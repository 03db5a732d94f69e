"""The pages of a list. They can be prefetched, so that the API server works while we still start."""

from __future__ import annotations

import asyncio
from collections import deque
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
"""Pages read early at most: they are kept as they came."""


class PageReader:
    """Reads the list of one collection page by page."""

    def __init__(
        self, client: KubeClient, path: str, selectors: Mapping[str, str] | None = None, *, timeout: float = 120.0
    ) -> None:
        """Configure; `selectors` are `fieldSelector` and `labelSelector`, empty ones are left out. Seconds."""
        self.path = path
        self.selectors = {name: value for name, value in (selectors or {}).items() if value}
        self._client = client
        self._timeout = timeout
        self._limit = _FIRST
        self._early: deque[asyncio.Task[bytes]] = deque()
        self._wanted = False

    def prefetch(self) -> None:
        """Read page after page on the running loop until the first one is requested, at most `_EARLY` of them."""
        self._early.append(self._request("", PAGE))
        self._early[-1].add_done_callback(self._read_on)

    def request_page(self, token: str, most: int = PAGE) -> asyncio.Task[bytes]:
        """Request a page: the first one without a token, else the one that the previous page's continue token names.

        It has at most `most` objects, fewer where they are long. Prefetched pages are returned first, whatever their
        size. Requesting the first page again discards them. The task raises KubeError.
        """
        if not token and self._wanted:
            self.close()
        self._wanted = True
        return self._early.popleft() if self._early else self._request(token, most)

    def close(self) -> None:
        """Cancel prefetched pages that nobody requested."""
        self._wanted = True
        while self._early:
            self._early.popleft().cancel()

    def _read_on(self, page: asyncio.Task[bytes]) -> None:
        # A failure is raised to the caller that requests the page.
        if self._wanted or page.cancelled() or page.exception() or len(self._early) >= _EARLY:
            return
        token = continue_token(page.result())
        if token:
            self._early.append(self._request(token, PAGE))
            self._early[-1].add_done_callback(self._read_on)

    def _request(self, token: str, most: int) -> asyncio.Task[bytes]:
        return asyncio.create_task(self._read(token, min(most, self._limit)))

    async def _read(self, token: str, limit: int) -> bytes:
        params: dict[str, str | int] = {**self.selectors, "limit": limit}
        if token:
            params["continue"] = token
        page = await self._client.get(self.path, params, timeout=self._timeout)
        self._limit = max(_FIRST, min(PAGE, limit * _BYTES // (len(page) + 1)))
        return page
