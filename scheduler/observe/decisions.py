"""The handlers of `/debug/decisions`: why pods were placed where they are, or nowhere. Imported in the server's thread.

Whoever may read this path sees all pods; `/debug/decisions/namespaces/NAME` shows those of one namespace to whoever
may `get` its pods (`authorization.access_to`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from aiohttp import web

from scheduler.observe.answers import Answers
from scheduler.observe.authorization import DECISIONS, namespace_of

_MOST: Final = 500
_DEFAULT_MOST: Final = 100
_POD_NAME_LENGTH: Final = 253


class DecisionEndpoints:
    """Answers from the history of decisions, which the scheduling loop keeps."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def add_to(self, application: web.Application) -> None:
        """Add the routes."""
        application.router.add_get(DECISIONS, self._decisions)
        application.router.add_get(f"{DECISIONS}/namespaces/{{namespace}}", self._decisions)

    async def _decisions(self, request: web.Request) -> web.Response:
        ask = self._answers.decisions
        assert ask is not None  # the routes exist only with it
        # From the path that was authorized, by the same function, and from nowhere else.
        namespace = namespace_of(request.path)
        if namespace is None and request.path != DECISIONS:
            return web.Response(status=404, text="no namespace has this name\n")
        problem, most = _number(request.query.get("limit"))
        pod = request.query.get("pod")
        if pod is not None and (namespace is None or not 0 < len(pod) <= _POD_NAME_LENGTH):
            problem = f"pod: a name, and only below {DECISIONS}/namespaces/NAME"
        if problem:
            return web.Response(status=400, text=f"{problem}\n")
        try:
            answer = await self._answers.gauges.ask(lambda: ask(namespace, pod, most))
        except TimeoutError:
            return web.Response(status=503, text="the scheduling loop is busy; try again\n")
        if answer is None:
            return web.Response(status=503, text="this replica does not lead; its Lease names the one that does\n")
        return web.Response(body=_encode(answer), content_type="application/json")


def _number(text: str | None) -> tuple[str, int]:
    if text is None:
        return "", _DEFAULT_MOST
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) <= _MOST):
        return f"limit: a number from 1 to {_MOST}", 0
    return "", int(text)


def _encode(answer: dict[str, Any]) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
