"""Who may read a page, and what a page may do.

The server listens on the loopback interface only, and its pages show a cluster to the person who started it. Others
on the same machine can connect, too, and so can any web page that this person's browser shows. Hence:

- Every path begins with a random token. It is not in a cookie, which a browser would send to all ports of the host.
- The Host header must name the loopback interface: a foreign name that resolves to it (DNS rebinding) is refused.
- What changes something is a POST of our own origin.
- The browser runs no script and loads nothing that is not ours, whatever the cluster's objects are called.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ADDRESS: Final = "127.0.0.1"
_NAMES: Final = frozenset({ADDRESS, "localhost"})
"""With any port: it may be forwarded from another machine (`ssh -L`)."""
MOST_BODY: Final = 64 << 10
"""Bytes of a form."""
MOST_QUERY: Final = 4096
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
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


def new_token() -> str:
    """Return what the path of every page begins with: 192 random bits."""
    return secrets.token_urlsafe(24)


def check_request(request: web.Request, token: str) -> None:
    """Let a request pass, or say why not.

    Raises:
        Refused: it is not for us, or not from our own pages.
    """
    if not _is_ours(f"//{request.headers.get('Host', '')}"):
        raise Refused(421, f"this server answers to {ADDRESS} and localhost only; open the address that it printed")
    shown_token = request.path.split("/", 2)[1]
    # As bytes: a path may hold anything, and compare_digest takes text of ASCII only.
    if not hmac.compare_digest(shown_token.encode("utf-8", "replace"), token.encode()):
        raise Refused(403, "the address has no valid token; open the one that the command printed")
    if len(request.query_string) > MOST_QUERY:
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
    if origin not in (None, "null") and not (_is_ours(origin) and urlsplit(origin).netloc == request.headers["Host"]):
        raise Refused(403, "a form is accepted from this server's own pages only")


def _is_ours(url: str) -> bool:
    try:
        return (urlsplit(url).hostname or "") in _NAMES
    except ValueError:
        return False
