"""The nodes' load for a snapshot, in load-watcher's form whatever the source is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scheduler.answers import API_VERSION
from scheduler.catalog import CredentialRules, address_problem
from scheduler.config import Configuration
from scheduler.framework import LoadReading
from scheduler.load import (
    LoadError,
    LoadSettings,
    ObjectCount,
    PrometheusSource,
    WatcherSource,
    configured_sources,
    is_averaged,
    match_nodes,
    watcher_document,
    window_seconds,
)
from secondary_scheduler.nodeload import LOAD_KIND


@dataclass(frozen=True, slots=True)
class LoadOrigin:
    """Where to read the load: one of the two addresses is set.

    Attributes:
        window: what it is averaged over; None: as the scheduler has it.
        scheduler: how the scheduler reads its own load, of which the window, the queries and the label of nodes count;
            None: by the defaults.
    """

    prometheus: str | None
    watcher: str | None
    token_file: Path | None
    ca_file: Path | None
    window: str | None
    allow_insecure: bool = False
    scheduler: LoadSettings | None = None


def as_scheduled(
    origin: LoadOrigin, configurations: Mapping[str, Configuration], say: Callable[[str], None]
) -> LoadOrigin:
    """Return where to read the load, with the window, the queries and the label of the scheduler that decides.

    With other ones a simulation would decide otherwise than the scheduler does. The window is said.

    Args:
        origin: as the user names it; a window that the user names stays.
        configurations: of the schedulers, by where they are from; where several average, the first one counts.
        say: gets which window it is.
    """
    if origin.watcher:
        return origin
    averaged = [
        (name, settings)
        for name, configuration in configurations.items()
        for key, settings in configured_sources(configuration.profiles)[0].items()
        if is_averaged(key)
    ]
    if not averaged:
        window = origin.window or LoadSettings("").window
        reason = "--window says" if origin.window else "no configuration of a scheduler says; --window names another"
        say(f"load: averaged over {window}, as {reason}")
        return origin
    name, settings = averaged[0]
    others = sorted(
        {f"{name} averages over {other.window}" for name, other in averaged if other.window != settings.window}
    )
    differing = f", though {', '.join(others)}" if others else ""
    if origin.window is None:
        say(f"load: averaged over {settings.window}, as {name} has it{differing}; --window names another")
    elif origin.window != settings.window:
        say(f"load: averaged over {origin.window}, as --window says; {name} averages over {settings.window}")
    return replace(origin, scheduler=settings)


def read_load_document(origin: LoadOrigin, names: Mapping[str, str], say: Callable[[str], None]) -> dict[str, Any]:
    """Return the load as a document of a snapshot. `names` are the nodes' by name and address (`nodes_by_address`).

    Raises:
        LoadError: the source does not answer with loads.
    """
    address = origin.prometheus or origin.watcher or ""
    if problem := address_problem(address):
        raise LoadError(f"the address of the load source {problem}")
    read = origin.scheduler or LoadSettings("")
    settings = LoadSettings(
        address=address,
        token_file=origin.token_file,
        ca_file=origin.ca_file,
        window=origin.window or read.window,
        max_age_seconds=read.max_age_seconds,
        timeout_seconds=read.timeout_seconds,
        queries=read.queries,
        node_label=read.node_label,
        rules=CredentialRules(directory=None, allow_insecure=origin.allow_insecure),
    )

    def object_count() -> int:
        return len(set(names.values()))

    content = (
        _from_watcher(settings, object_count, say)
        if origin.watcher
        else _from_prometheus(settings, names, object_count, say)
    )
    return {"apiVersion": API_VERSION, "kind": LOAD_KIND, "metadata": {"name": "nodes"}, **content}


def _from_watcher(settings: LoadSettings, object_count: ObjectCount, say: Callable[[str], None]) -> dict[str, Any]:
    source = WatcherSource(settings, object_count=object_count)
    try:
        answer = source.ask()
    finally:
        source.close()
    _say_left_out(answer.reading(0.0), say)
    window = {"start": answer.window.start, "end": answer.window.end}
    nodes = {name: {"metrics": [metric._asdict() for metric in metrics]} for name, metrics in answer.metrics.items()}
    return {
        "timestamp": math.floor(answer.timestamp),
        "window": {
            "duration": answer.window.duration or "",
            **{name: math.floor(value) for name, value in window.items() if value is not None},
        },
        "source": answer.source,
        "data": {"NodeMetricsMap": nodes},
    }


def _say_left_out(reading: LoadReading, say: Callable[[str], None]) -> None:
    if reading.rejected:
        say(f"left out values that cannot be a load: {reading.left_out}")


def _from_prometheus(
    settings: LoadSettings, names: Mapping[str, str], object_count: ObjectCount, say: Callable[[str], None]
) -> dict[str, Any]:
    source = PrometheusSource(settings, object_count=object_count)
    try:
        reading = source.read()
    finally:
        source.close()
    _say_left_out(reading, say)
    matched, unmatched = match_nodes(reading, names.get)
    fresh = matched.fresh_loads(reading.window_end, settings.max_age_seconds)
    if unmatched:
        say(f"left out the load of {len(unmatched)} instances that are no nodes, such as {unmatched[0]}")
    if len(fresh) < len(matched.loads):
        old = sorted(matched.loads.keys() - fresh.keys())
        limit = f"{settings.max_age_seconds:.0f} s"
        say(f"left out the load of {len(old)} nodes that is older than {limit}, such as {old[0]}")
    return watcher_document(
        fresh,
        source="Prometheus",
        window=settings.window,
        window_seconds=window_seconds(settings.window),
        end=reading.window_end,
        timestamp=reading.window_end,
    )
