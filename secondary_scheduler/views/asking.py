"""The parameters of a page's address, and the fields of a form: each is what the page offers, or it is refused."""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web

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
