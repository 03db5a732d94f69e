"""The moment of a recording that a page shows: part of the URL, so that every link keeps it.

`/TOKEN/at/12/nodes` are the nodes at the 13th moment; without `/at/12` a page is about the last one. The form that
chooses another moment adds `at=N` to the query of the page; the answer leads to the address with that moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from secondary_scheduler.cli.ui.recordingscene import RecordingScenes
from secondary_scheduler.views.asking import BadQuery

PREFIX: Final = "/at/{moment}"
"""Of the routes."""
_PARAMETER: Final = "at"


@dataclass(frozen=True, slots=True)
class MomentChoice:
    """What the form shows.

    Attributes:
        action: path of the page that is shown.
        kept: the parameters of its query.
        index, last: the moment, from 0, and the last one.
        time, start, step: the moment, the first one, and how far one is from the next; seconds since the epoch.
    """

    action: str
    kept: tuple[tuple[str, str], ...]
    index: int
    last: int
    time: float
    start: float
    step: float


def moment_of(request: web.Request, scenes: RecordingScenes) -> int:
    """Return the moment that a page is about.

    Raises:
        BadQuery: there is none of that number.
    """
    return _number(request.match_info.get("moment", str(scenes.last)), scenes.last)


def moved(request: web.Request, scenes: RecordingScenes, root: str) -> str | None:
    """Return where the form leads that chooses another moment; None where the request does not come from it.

    Raises:
        BadQuery: there is no such moment.
    """
    if _PARAMETER not in request.query:
        return None
    index = _number(request.query[_PARAMETER], scenes.last)
    kept = urlencode([(name, value) for name, value in request.query.items() if name != _PARAMETER])
    return f"{root}/at/{index}{_page(request, root)}{'?' if kept else ''}{kept}"


def choice_of(request: web.Request, scenes: RecordingScenes, index: int, root: str) -> MomentChoice:
    """Return what the form shows on a page."""
    frames = scenes.course.frames
    step = frames[1].time - frames[0].time if len(frames) > 1 else 0.0
    # What is sent with POST has no address of its own to come back to, but the page of its form has.
    kept = tuple(request.query.items()) if request.method == "GET" else ()
    action = f"{root}/at/{index}{_page(request, root)}"
    return MomentChoice(action, kept, index, scenes.last, frames[index].time, frames[0].time, step)


def _page(request: web.Request, root: str) -> str:
    """The path of a page without token and moment, still quoted."""
    path = request.rel_url.raw_path.removeprefix(root)
    moment = request.match_info.get("moment")
    return path if moment is None else path.removeprefix(f"/at/{moment}")


def _number(text: str, last: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 5 and int(text) <= last):
        raise BadQuery(f"{_PARAMETER}: a moment of the recording, a number from 0 to {last}")
    return int(text)
