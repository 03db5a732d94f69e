"""The parameters of a page's address, and the fields of a form: each is what the page offers, or it is refused.

What every server of the pages demands of a request, and forbids the browser.

Whatever the cluster's objects are called, the browser runs no script and loads nothing that is not ours. What changes
something is a POST of our own origin.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
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


_MAX_TEXT = 300
_MAX_PAGE = 100_000


class BadQuery(Exception):
    """A parameter or a form that cannot be; the text says which."""


def choice(request: web.Request, name: str, choices: Collection[str], default: str) -> str:
    """Return a parameter that must be one of some words.

    Raises:
        BadQuery: it is another one.
    """
    value = request.query.get(name, default)
    if value not in choices:
        raise BadQuery(f"{name}: one of {', '.join(choices)}")
    return value


def text(request: web.Request, name: str) -> str:
    """Return a parameter that may be any text of some length; "" where it is missing.

    Raises:
        BadQuery: it is longer.
    """
    value = request.query.get(name, "")
    if len(value) > _MAX_TEXT:
        raise BadQuery(f"{name}: at most {_MAX_TEXT} characters")
    return value


def page_number(request: web.Request, name: str = "page") -> int:
    """Return the number of a page, from 1.

    Raises:
        BadQuery: it is no number.
    """
    value = request.query.get(name, "1")
    if not (value.isascii() and value.isdigit() and len(value) < 8 and 1 <= int(value) <= _MAX_PAGE):
        raise BadQuery(f"{name}: a number from 1 to {_MAX_PAGE:,}")
    return int(value)


async def read_form(request: web.Request) -> dict[str, str]:
    """Return the fields of a form, as browsers send one without files.

    Raises:
        BadQuery: it is something else, cannot be read, or ends early.
    """
    if request.content_type != "application/x-www-form-urlencoded":
        raise BadQuery("a form is sent as application/x-www-form-urlencoded")
    try:
        posted = await request.post()
    except (ValueError, LookupError, OSError, web.RequestPayloadError) as error:
        # Anybody can send this: it is not worth a traceback.
        raise BadQuery("the form cannot be read") from error
    return {name: value for name, value in posted.items() if isinstance(value, str)}
