"""The handlers of `/debug/decisions`, `/debug/queue`, `/debug/shadow` and `/debug/nodes`: why pods were placed where
they are, or nowhere, what a shadow profile would have done, and what the scheduler knows of nodes. Imported in the
server's thread.

Whoever may read `/debug/decisions` sees all pods. The others want rights on the objects that they name
(`authorization.access_to`); what is asked is read from the path that was authorized, and from nowhere else.

The handler of `/debug/nodes`: each node's load as the scheduler sees it. Imported in the server's thread.

Whoever may `get` nodes may read it (`authorization.access_to`): it says no more of a node than its object and a metrics
server do, and names no pod.

`/debug/handover`: the history of decisions, for the next leader alone. Imported in the server's thread.

Whoever asks has shown a token of the audience that only the scheduler's pods are given (`endpoints`). The answer holds
one of our own, by which the other side knows that it asked the right pod (docs/adr/0037).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Raw

from scheduler.catalog import HANDOVER_PATH
from scheduler.observe.answers import (
    Answers,
    ChosenQuestion,
    HandedOverAnswer,
    HandoverSource,
    NodeQuestion,
    PodsQuestion,
    Question,
    QueueQuestion,
    ShadowQuestion,
    UnansweredError,
)
from scheduler.observe.authorization import DECISIONS, NODES, QUEUE, SHADOW, named_in
from scheduler.observe.refresh import GaugeRefresh


class HandoverEndpoint:
    """Serves the history."""

    def __init__(self, source: HandoverSource, loop: GaugeRefresh) -> None:
        self._source, self._loop = source, loop

    def add_to(self, application: web.Application) -> None:
        """Add the route."""
        application.router.add_get(HANDOVER_PATH, self._hand_over)

    async def _hand_over(self, request: web.Request) -> web.StreamResponse:
        try:
            history = await self._loop.ask(self._source.export)
        except TimeoutError:
            return web.Response(status=503, text="the scheduling loop is busy; try again\n")
        except UnansweredError as error:
            return web.Response(status=error.status, text=f"{error}\n")
        response = web.Response(
            body=msgspec.json.encode(HandedOverAnswer(self._source.token(), Raw(history))),
            content_type="application/json",
        )
        await response.prepare(request)
        await response.write_eof()
        self._source.delivered()
        return response


_KIND: Final = {"apiVersion": "secondary-scheduler.io/v1", "kind": "NodeLoadReport"}


class NodeLoadEndpoint:
    """Answers from the node table, which the scheduling loop owns."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def add_to(self, application: web.Application) -> None:
        """Add the route."""
        application.router.add_get(NODES, self._loads)

    async def _loads(self, _: web.Request) -> web.Response:
        ask = self._answers.node_loads
        assert ask is not None  # the route exists only with it
        try:
            sources = await self._answers.gauges.ask(ask)
        except TimeoutError:
            return web.Response(status=503, text="the scheduling loop is busy; try again\n")
        shown = [
            {
                "source": loads.source,
                "fresh": loads.fresh,
                "ageSeconds": round(loads.age_seconds, 1) if math.isfinite(loads.age_seconds) else None,
                "nodes": _list(loads.nodes),
            }
            for loads in sources
        ]
        body = msgspec.json.encode({**_KIND, "sources": shown}) + b"\n"
        return web.Response(body=body, content_type="application/json")


def _list(nodes: Iterable[object]) -> list[object]:
    """Go through the nodes here and not on the scheduling loop."""
    return list(nodes)


_MOST: Final = 500
_DEFAULT_MOST: Final = 100
_DEFAULT_MOST_WAITING: Final = 20
_NAME_LENGTH: Final = 253
_BUSY: Final = "the scheduling loop is busy; try again\n"


class _QueryError(ValueError):
    """A query that cannot be understood; the text is for the caller."""


class DecisionEndpoints:
    """Answers that the scheduling loop gives."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def add_to(self, application: web.Application) -> None:
        """Add the routes."""
        for path in (DECISIONS, f"{DECISIONS}/namespaces/{{namespace}}"):
            application.router.add_get(path, self._decisions)
        for path in (QUEUE, f"{QUEUE}/namespaces/{{namespace}}"):
            application.router.add_get(path, self._queue)
        for path in (SHADOW, f"{SHADOW}/namespaces/{{namespace}}"):
            application.router.add_get(path, self._shadow)
        application.router.add_get(f"{NODES}/{{node}}", self._node)
        application.router.add_get(f"{NODES}/{{node}}/decisions", self._chosen)

    async def _decisions(self, request: web.Request) -> web.Response:
        namespace = named_in(request.path, "namespace")
        if namespace is None and request.path != DECISIONS:
            return _not_found("namespace")
        try:
            pod, node = _name(request, "pod"), _name(request, "node")
            if pod is not None and namespace is None:
                raise _QueryError(f"pod: only below {DECISIONS}/namespaces/NAME")
            if node is not None and pod is None:
                raise _QueryError("node: only with a pod")
            return await self._answer(PodsQuestion(namespace, pod, _number(request, _DEFAULT_MOST), node))
        except _QueryError as error:
            return web.Response(status=400, text=f"{error}\n")

    async def _queue(self, request: web.Request) -> web.Response:
        namespace = named_in(request.path, "namespace")
        if namespace is None and request.path != QUEUE:
            return _not_found("namespace")
        try:
            return await self._answer(QueueQuestion(namespace, _number(request, _DEFAULT_MOST_WAITING)))
        except _QueryError as error:
            return web.Response(status=400, text=f"{error}\n")

    async def _shadow(self, request: web.Request) -> web.Response:
        namespace = named_in(request.path, "namespace")
        if namespace is None and request.path != SHADOW:
            return _not_found("namespace")
        try:
            return await self._answer(ShadowQuestion(namespace, _number(request, _DEFAULT_MOST_WAITING)))
        except _QueryError as error:
            return web.Response(status=400, text=f"{error}\n")

    async def _node(self, request: web.Request) -> web.Response:
        node = named_in(request.path, "node")
        return _not_found("node") if node is None else await self._answer(NodeQuestion(node))

    async def _chosen(self, request: web.Request) -> web.Response:
        node = named_in(request.path, "node")
        if node is None:
            return _not_found("node")
        try:
            return await self._answer(ChosenQuestion(node, _number(request, _DEFAULT_MOST_WAITING)))
        except _QueryError as error:
            return web.Response(status=400, text=f"{error}\n")

    async def _answer(self, question: Question) -> web.Response:
        inspect = self._answers.inspect
        assert inspect is not None  # the routes exist only with it
        try:
            answer = await self._answers.gauges.ask(lambda: inspect(question))
        except TimeoutError:
            return web.Response(status=503, text=_BUSY)
        except UnansweredError as error:
            headers = {"Retry-After": "5"} if error.status == 429 else {}
            return web.Response(status=error.status, text=f"{error}\n", headers=headers)
        return web.Response(body=_encode(answer), content_type="application/json")


def _not_found(kind: str) -> web.Response:
    return web.Response(status=404, text=f"no {kind} can have this name\n")


def _name(request: web.Request, key: str) -> str | None:
    name = request.query.get(key)
    if name is not None and not 0 < len(name) <= _NAME_LENGTH:
        raise _QueryError(f"{key}: a name")
    return name


def _number(request: web.Request, default: int) -> int:
    text = request.query.get("limit")
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) <= _MOST):
        raise _QueryError(f"limit: a number from 1 to {_MOST}")
    return int(text)


def _encode(answer: dict[str, Any]) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
