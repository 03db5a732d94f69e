"""What every server of the pages demands of a request, and forbids the browser.

Whatever the cluster's objects are called, the browser runs no script and loads nothing that is not ours. What changes
something is a POST of our own origin.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAX_BODY: Final = 64 << 10
"""Bytes of a form."""
MAX_QUERY: Final = 4096
_AUTHORITY: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """A request that is not answered, with the status and a sentence for its sender."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def host_of(request: web.Request) -> str:
    """Return the host of a Host header that is `host[:port]`, in lower case; "" for any other, such as one with a user
    or a path, in which parsers of URLs find different hosts."""
    match = _AUTHORITY.fullmatch(request.headers.get("Host", ""))
    return match[1].lower() if match is not None else ""


def check_form(request: web.Request) -> None:
    """Let a request pass that is no longer than it may be and, unless it only reads, of one of our own pages.

    `host_of` has said that its Host is ours.

    Raises:
        Refused: with why.
    """
    if len(request.query_string) > MAX_QUERY:
        raise Refused(414, "the address is too long")
    if request.method in ("GET", "HEAD"):
        return
    if request.method != "POST":
        raise Refused(405, f"{request.method} is not supported")
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    # A browser may hide its origin (`null`) even from ourselves; then Sec-Fetch-Site, which no
    # script can set, has to say that they are ours.
    if site not in (None, "same-origin") or (origin in (None, "null") and site is None):
        raise Refused(403, "a form is accepted from this server's own pages only")
    own = [f"{scheme}://{request.headers['Host']}" for scheme in ("http", "https")]
    if origin not in (None, "null", *own):
        raise Refused(403, "a form is accepted from this server's own pages only")
