"""How benchmarks write to an API server: many requests at a time, and server-side apply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterable
from typing import Any

from scheduler.kube.client import APPLY_PATCH, KubeClient, api_path


async def at_once(calls: Iterable[Awaitable[object]], workers: int) -> None:
    """Await all calls, so many at a time. They are made only when it is their turn: an iterator may make them."""
    left = iter(calls)

    async def worker() -> None:
        for call in left:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())


def path_of(item: dict[str, Any], name: str | None = None) -> str:
    """Return the path of objects like this one in its namespace, or of the one with this name."""
    kind = item["kind"].lower()
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return api_path(item["apiVersion"], plural, namespace=item["metadata"].get("namespace"), name=name)


async def apply(client: KubeClient, item: dict[str, Any], manager: str) -> dict[str, Any]:
    """Apply an object as a field manager, whatever others have set; returns what the API server has then."""
    path = path_of(item, item["metadata"]["name"])
    params = {"fieldManager": manager, "force": "true"}
    answer: dict[str, Any] = json.loads(await client.patch(path, item, params, content_type=APPLY_PATCH))
    return answer
