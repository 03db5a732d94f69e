"""The nodes' usage for people: a line per node."""

from __future__ import annotations

import math
from collections.abc import Iterator

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned
from secondary_scheduler.cli.top.usage import NodeUsage, NodeUsageList, PodCounts, SourcedLoad
from secondary_scheduler.clusterstatus.health import duration

_HEADING = [
    "NODE",
    "CPU",
    "CPU EST",
    "MEMORY",
    "MEM EST",
    "AGE",
    "CPU REQUESTED",
    "MEMORY REQUESTED",
    "PODS",
    "BY SCHEDULER",
]
_SPARE = (
    "BY SCHEDULER",
    "MEM EST",
    "CPU EST",
    "AGE",
    "MEMORY REQUESTED",
    "CPU REQUESTED",
    "PODS",
    "MEMORY",
)
"""What a narrow terminal lacks first: what adds to other columns goes before what stands for itself."""
_GIBIBYTE = 1 << 30
_SHOWN_SCHEDULERS = 3
_MAX_NAME_LENGTH = 40
"""Of a scheduler, whose name anybody may invent; nodes' are shown whole."""


def lines(document: NodeUsageList, *, wide: bool) -> Iterator[str]:
    """Yield the text: a heading and a line per node, then what is stale and what could not be read; `wide` with the
    node's state, the source of the load and all scheduler names."""
    rows = [[*_HEADING, *(["STATUS", "LOAD SOURCE"] if wide else [])]]
    # Otherwise a scheduler has answered, and has no load of the node.
    unknown = not document.load_sources and any(line.startswith("load:") for line in document.not_shown)
    without_load = "not shown" if unknown else "not measured"
    for item in document.items:
        rows.append([printable(cell) for cell in _row(item, wide=wide, without_load=without_load)])
    yield from aligned(rows, _SPARE, whole=wide)
    for source in document.load_sources:
        if not source.fresh:
            age = "it was never read" if source.age_seconds is None else f"{duration(source.age_seconds)} old"
            yield printable(f"Load is stale: {source.source}, {age}")
    yield from (printable(f"Not shown: {line}") for line in document.not_shown)


def _row(item: NodeUsage, *, wide: bool, without_load: str) -> Iterator[str]:
    load = item.load[0] if item.load else None
    yield item.name
    if load is None:
        yield from ("-", "-", "-", "-", without_load)
    else:
        yield from map(_percent, (load.cpu, load.estimated.cpu, load.memory, load.estimated.memory))
        yield _age(load)
    requested, allocatable = item.requested, item.allocatable
    cpu_share, memory_share = item.requested_shares() or (math.nan, math.nan)
    cpu = "-" if requested is None else _cores(requested.cpu_milli)
    yield f"{cpu} of {_cores(allocatable.cpu_milli)}{_share(cpu_share)}"
    memory = "-" if requested is None else _gibibytes(requested.memory_bytes)
    yield f"{memory} of {_gibibytes(allocatable.memory_bytes)}{_share(memory_share)}"
    yield f"{'-' if item.pods is None else item.pods.total} of {allocatable.pods}"
    yield _schedulers(item.pods, wide=wide)
    if wide:
        state = ("Ready" if item.ready else "NotReady", "" if item.schedulable else "Cordoned")
        yield ",".join(filter(None, state))
        yield load.source if load else "-"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def _share(value: float) -> str:
    return "" if math.isnan(value) else f" ({value * 100:.0f}%)"


def _cores(milli: int) -> str:
    return f"{milli / 1000:.4g}"


def _gibibytes(amount: int) -> str:
    return f"{amount / _GIBIBYTE:.4g}Gi"


def _age(load: SourcedLoad) -> str:
    age = "?" if load.age_seconds is None else duration(load.age_seconds)
    return age if load.fresh else f"{age}, stale"


def _schedulers(pods: PodCounts | None, *, wide: bool) -> str:
    if pods is None:
        return "-"
    counts = list(pods.by_scheduler.items())[: None if wide else _SHOWN_SCHEDULERS]
    texts = [f"{_shortened(name)} {count}" for name, count in counts]
    rest = pods.total - sum(count for _, count in counts)
    return ", ".join([*texts, *([f"others {rest}"] if rest else [])]) or "-"


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"
