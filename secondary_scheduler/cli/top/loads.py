"""The nodes' load as the running scheduler sees it: its `/debug/nodes`, through a forwarded port (docs/adr/0025)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.answers import NodeLoadReport, SourceLoads
from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.clusterstatus.forwarding import fetch, read_answer

PATH = "/debug/nodes"


@dataclass
class Loads:
    """What the schedulers answered.

    Attributes:
        sources: by name; of two schedulers that read the same, the first.
        missing: why a load is not shown, a line each.
    """

    sources: dict[str, SourceLoads] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def read_loads(
    config: ClientConfig, namespace: str, pods: Sequence[str], port: int, asker: ClientConfig | None = None
) -> Loads:
    """Ask these pods of a namespace, all at the same time; with the credentials of `asker`, if there is one."""

    async def ask_each() -> list[Sequence[SourceLoads] | str]:
        return list(await asyncio.gather(*(_ask(config, namespace, pod, port, asker) for pod in pods)))

    loads = Loads()
    for answer in asyncio.run(ask_each()):
        if isinstance(answer, str):
            loads.missing.append(answer)
        else:
            for source in answer:
                loads.sources.setdefault(source.source, source)
    return loads


async def _ask(
    config: ClientConfig, namespace: str, pod: str, port: int, asker: ClientConfig | None
) -> Sequence[SourceLoads] | str:
    place = f"{namespace}/{pod}"
    try:
        answer = await fetch(config, namespace, pod, port, PATH, {}, asker=asker)
    except CommandError as error:
        return f"load: {error}"
    if answer.status != 200:
        refusal = answer.refusal("to get nodes", "it is an older version, or not this project's scheduler")
        return f"load: {place} answers {refusal}"
    try:
        return read_answer(answer.body, NodeLoadReport, place).sources
    except CommandError as error:
        return f"load: {error}"
