"""HTML from templates. Everything that is filled in is escaped: names and labels are whatever somebody wrote."""

from __future__ import annotations

import math
import re
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from secondary_scheduler.views.decisions import score_matrix

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_MAX_LENGTH = 300
"""Characters of a text that are shown; a page must stay readable whatever a label holds."""
_WORD_STARTS = re.compile(r"(?<=\.)|(?<=[a-z0-9])(?=[A-Z])")


@cache
def environment() -> Environment:
    """Return the templates with their filters."""
    templates = Environment(
        loader=PackageLoader("secondary_scheduler.views"),
        # On for every template, whatever its name.
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "text": shown_text,
        "words": words,
        "quoted": quoted,
        "share": share,
        "amount": amount,
        "duration": duration,
        "count": counted,
        "sentence": sentence,
        "moment": moment,
        "score_matrix": score_matrix,
    }
    return templates


def render(template: str, **values: Any) -> str:
    """Return the page of a template."""
    return environment().get_template(template).render(**values)


def static_file(name: str) -> bytes:
    """Return one of our own files; KeyError for any other name."""
    return _static_files()[name]


@cache
def _static_files() -> dict[str, bytes]:
    directory = files("secondary_scheduler.views").joinpath("static")
    return {entry.name: entry.read_bytes() for entry in directory.iterdir() if entry.is_file()}


def static_response(name: str) -> web.Response:
    """Return the answer to a request for one of our own files.

    Raises:
        HTTPNotFound: there is none of that name.
    """
    try:
        content = static_file(name)
    except KeyError:
        raise web.HTTPNotFound(text=f"there is no file {name}") from None
    return web.Response(body=content, content_type=_TYPES[name.rpartition(".")[2]], charset="utf-8")


def shown_text(value: object) -> str:
    """Return one line without characters that reorder or hide others, cut where it is long."""
    text = str(value)
    text = text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
    return text if text.isprintable() else "".join(char if char.isprintable() else "�" for char in text)


def words(value: object) -> list[str]:
    """Return a field's path in pieces: a browser may break it after a dot and before a word in camelCase."""
    return _WORD_STARTS.split(shown_text(value))


def quoted(value: object) -> str:
    """Return a part of a URL's query."""
    return quote(str(value), safe="")


def share(value: float | None) -> str:
    """Return per cent, or that they are not known."""
    return "not known" if value is None or math.isnan(value) else f"{value:.0f} %"


def amount(value: float, resource: str) -> str:
    """Return an amount of a resource as people read it; CPU is given in milli-units."""
    if resource == "cpu":
        return f"{value / 1000:.3g}" if value >= 1000 or value == 0 else f"{value:.0f}m"
    if resource not in ("memory", "ephemeral-storage") and not resource.startswith("hugepages-"):
        return f"{value:,.0f}"
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def duration(seconds: float | None) -> str:
    """Return an age in its two largest units."""
    if seconds is None or math.isnan(seconds):
        return "not known"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 and seconds % 1 else f"{seconds:.0f} s"
    whole = int(seconds)
    for size, unit, smaller, small_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    raise AssertionError


def counted(number: int, noun: str) -> str:
    """Return `1 pod` or `1,000 pods`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sentence(text: str) -> str:
    """Return a text with a large first letter, unless it begins with a name such as `shop/web-1`."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].rstrip(":;,.").isalpha() else text


def moment(seconds: float) -> str:
    """Return a time in UTC."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "not known"
