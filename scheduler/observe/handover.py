"""`/debug/handover`: the history of decisions, for the next leader alone. Imported in the server's thread.

Whoever asks has shown a token of the audience that only the scheduler's pods are given (`endpoints`). The answer holds
one of our own, by which the other side knows that it asked the right pod (docs/adr/0037).
"""

from __future__ import annotations

import msgspec
from aiohttp import web
from msgspec import Raw

from scheduler.catalog import HANDOVER_PATH
from scheduler.observe.answers import HandedOverAnswer, HandoverSource
from scheduler.observe.questions import UnansweredError
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
