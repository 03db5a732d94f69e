"""A fake load-watcher: it reports the same, always fresh loads to all contestants."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from devcluster import ports
from scheduler.framework import NodeLoad
from scheduler.load import watcher_document

_WINDOW_SECONDS = 900


def cpu_loads(nodes: Sequence[str]) -> dict[str, float]:
    """A CPU load in percent for each node: 5 to 44, in no order that a scheduler could profit from."""
    return {name: 5.0 + (number * 37) % 40 for number, name in enumerate(nodes)}


def node_loads(cpu: Mapping[str, float]) -> dict[str, NodeLoad]:
    """All figures of nodes with such CPU loads."""
    return {
        name: NodeLoad(cpu_average=load, cpu_stddev=load / 10, memory_average=load, memory_stddev=1.0)
        for name, load in cpu.items()
    }


def answer(loads: Mapping[str, NodeLoad], end: float) -> dict[str, Any]:
    """What a load-watcher answers about nodes, for a window that ends then, in seconds since the epoch."""
    return watcher_document(
        loads, source="benchmark", window="15m", window_seconds=_WINDOW_SECONDS, end=end, timestamp=end
    )


@contextlib.contextmanager
def serving(cpu: Mapping[str, float]) -> Iterator[str]:
    """Serve `/watcher` while the block runs; yields the address."""
    # Encoded once: thousands of nodes for each question would be work beside the contestants.
    data = msgspec.Raw(msgspec.json.encode(answer(node_loads(cpu), 0.0)["data"]))
    with ports.serving(lambda: msgspec.json.encode({**answer({}, time.time()), "data": data})) as address:
        yield address
