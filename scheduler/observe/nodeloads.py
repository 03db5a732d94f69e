"""The handler of `/debug/nodes`: each node's load as the scheduler sees it. Imported in the server's thread.

Whoever may `get` nodes may read it (`authorization.access_to`): it says no more of a node than its object and a metrics
server do, and names no pod.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec
from aiohttp import web

from scheduler.observe.answers import Answers
from scheduler.observe.authorization import NODES

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
