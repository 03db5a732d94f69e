"""The nodes' usage for people: a line per node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned
from secondary_scheduler.cli.top.usage import requested_share
from secondary_scheduler.clusterstatus.health import duration

Json = Mapping[str, Any]
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
_LONGEST_NAME = 40
"""Of a scheduler, whose name anybody may invent; nodes' are shown whole."""


def lines(document: Json, *, wide: bool) -> Iterator[str]:
    """Yield the text: a heading and a line per node, then what is stale and what could not be read.

    Args:
        document: as `usage_document` returns it.
        wide: with the node's state, the source of the load and all scheduler names.
    """
    rows = [[*_HEADING, *(["STATUS", "LOAD SOURCE"] if wide else [])]]
    # Otherwise a scheduler has answered, and has no load of the node.
    unknown = not document["loadSources"] and any(line.startswith("load:") for line in document["notShown"])
    without_load = "not shown" if unknown else "not measured"
    for item in document["items"]:
        rows.append([printable(cell) for cell in _row(item, wide=wide, without_load=without_load)])
    yield from aligned(rows, _SPARE, whole=wide)
    for source in document["loadSources"]:
        if not source["fresh"]:
            age = "it was never read" if source["ageSeconds"] is None else f"{duration(source['ageSeconds'])} old"
            yield printable(f"Load is stale: {source['source']}, {age}")
    yield from (printable(f"Not shown: {line}") for line in document["notShown"])


def _row(item: Json, *, wide: bool, without_load: str) -> Iterator[str]:
    load = item["load"][0] if item["load"] else None
    yield item["name"]
    for resource in ("cpu", "memory"):
        yield _percent(load and load[resource])
        yield _percent(load and load["estimated"][resource])
    yield without_load if load is None else _age(load)
    requested, allocatable = item["requested"], item["allocatable"]
    for resource, text_of in (("cpuMilli", _cores), ("memoryBytes", _gibibytes)):
        amount = "-" if requested is None else text_of(requested[resource])
        yield f"{amount} of {text_of(allocatable[resource])}{_share(requested_share(item, resource))}"
    pods = item["pods"]
    yield f"{'-' if pods is None else pods['total']} of {allocatable['pods']}"
    yield _schedulers(pods, wide=wide)
    if wide:
        yield ",".join(
            filter(None, ("Ready" if item["ready"] else "NotReady", "" if item["schedulable"] else "Cordoned"))
        )
        yield load["source"] if load else "-"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def _share(value: float | None) -> str:
    return "" if value is None else f" ({value * 100:.0f}%)"


def _cores(milli: int) -> str:
    return f"{milli / 1000:.4g}"


def _gibibytes(amount: int) -> str:
    return f"{amount / _GIBIBYTE:.4g}Gi"


def _age(load: Json) -> str:
    age = "?" if load["ageSeconds"] is None else duration(load["ageSeconds"])
    return age if load["fresh"] else f"{age}, stale"


def _schedulers(pods: Json | None, *, wide: bool) -> str:
    if pods is None:
        return "-"
    named = list(pods["byScheduler"].items())
    shown = named if wide else named[:_SHOWN_SCHEDULERS]
    texts = [f"{_shortened(name)} {count}" for name, count in shown]
    rest = pods["total"] - sum(count for _, count in shown)
    return ", ".join([*texts, *([f"others {rest}"] if rest else [])]) or "-"


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
