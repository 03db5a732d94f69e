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

from typing import Final

import msgspec
from aiohttp import web
from msgspec import Raw
from msgspec.structs import replace

from scheduler import __version__
from scheduler.answers import Document, NodeLoadReport
from scheduler.catalog import HANDOVER_PATH
from scheduler.observe.answers import (
    ChosenQuestion,
    EndpointSources,
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

_NAME_LENGTH: Final = 253
_BUSY: Final = "the scheduling loop is busy; try again\n"


class _QueryError(ValueError):
    """A query that cannot be understood; the text is for the caller."""


class DecisionEndpoints:
    """Answers that the scheduling loop gives."""

    def __init__(self, answers: EndpointSources) -> None:
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
            return await self._answer(PodsQuestion(namespace, pod, _number(request, _DEFAULT_LIMIT), node))
        except _QueryError as error:
            return web.Response(status=400, text=f"{error}\n")

    async def _queue(self, request: web.Request) -> web.Response:
        namespace = named_in(request.path, "namespace")
        if namespace is None and request.path != QUEUE:
            return _not_found("namespace")
        try:
            return await self._answer(QueueQuestion(namespace, _number(request, _DEFAULT_WAITING_LIMIT)))
        except _QueryError as error:
            return web.Response(status=400, text=f"{error}\n")

    async def _shadow(self, request: web.Request) -> web.Response:
        namespace = named_in(request.path, "namespace")
        if namespace is None and request.path != SHADOW:
            return _not_found("namespace")
        try:
            return await self._answer(ShadowQuestion(namespace, _number(request, _DEFAULT_WAITING_LIMIT)))
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
            return await self._answer(ChosenQuestion(node, _number(request, _DEFAULT_WAITING_LIMIT)))
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
        return _response(answer)


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
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) <= _MAX_LIMIT):
        raise _QueryError(f"limit: a number from 1 to {_MAX_LIMIT}")
    return int(text)


def _response(document: Document) -> web.Response:
    body = msgspec.json.encode(replace(document, scheduler_version=__version__)) + b"\n"
    return web.Response(body=body, content_type="application/json")


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
            return web.Response(status=503, text=_BUSY)
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


class NodeLoadEndpoint:
    """Answers from the node table, which the scheduling loop owns."""

    def __init__(self, answers: EndpointSources) -> None:
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
            return web.Response(status=503, text=_BUSY)
        return _response(NodeLoadReport(sources=tuple(sources)))


_MAX_LIMIT: Final = 500
_DEFAULT_LIMIT: Final = 100
_DEFAULT_WAITING_LIMIT: Final = 20
