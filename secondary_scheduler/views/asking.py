"""The parameters of a page's address: each is one of what the page offers, or the page is refused."""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web

_MOST_TEXT = 300
_MOST_PAGE = 100_000


class BadQuery(Exception):
    """A parameter that cannot be; the text names it."""


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
    if len(value) > _MOST_TEXT:
        raise BadQuery(f"{name}: at most {_MOST_TEXT} characters")
    return value


def page_number(request: web.Request, name: str = "page") -> int:
    """Return the number of a page, from 1.

    Raises:
        BadQuery: it is no number.
    """
    value = request.query.get(name, "1")
    if not (value.isascii() and value.isdigit() and len(value) < 8 and 1 <= int(value) <= _MOST_PAGE):
        raise BadQuery(f"{name}: a number from 1 to {_MOST_PAGE:,}")
    return int(value)
