"""The nodes' load for a snapshot, in load-watcher's form whatever the source is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from scheduler.catalog import CredentialRules, address_problem
from scheduler.framework import LoadReading
from scheduler.load import (
    Known,
    LoadError,
    LoadSettings,
    PrometheusSource,
    WatcherSource,
    match_nodes,
    watcher_document,
    window_seconds,
)
from secondary_scheduler.clustersnapshot.origin import LoadOrigin
from secondary_scheduler.nodeload import LOAD_API_VERSION, LOAD_KIND

_MAX_AGE = 300.0
"""Seconds after which a sample is left out, as the scheduler by default does not use it."""


def read_load_document(origin: LoadOrigin, names: Mapping[str, str], say: Callable[[str], None]) -> dict[str, Any]:
    """Return the load as a document of a snapshot. `names` are the nodes' by name and address (`nodes_by_address`).

    Raises:
        LoadError: the source does not answer with loads.
    """
    address = origin.prometheus or origin.watcher or ""
    if problem := address_problem(address):
        raise LoadError(f"the address of the load source {problem}")
    settings = LoadSettings(
        address=address,
        token_file=origin.token_file,
        ca_file=origin.ca_file,
        window=origin.window,
        rules=CredentialRules(directory=None, allow_insecure=origin.allow_insecure),
    )

    def known() -> int:
        return len(set(names.values()))

    content = _from_watcher(settings, known, say) if origin.watcher else _from_prometheus(settings, names, known, say)
    return {"apiVersion": LOAD_API_VERSION, "kind": LOAD_KIND, "metadata": {"name": "nodes"}, **content}


def _from_watcher(settings: LoadSettings, known: Known, say: Callable[[str], None]) -> dict[str, Any]:
    source = WatcherSource(settings, known=known)
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
    settings: LoadSettings, names: Mapping[str, str], known: Known, say: Callable[[str], None]
) -> dict[str, Any]:
    source = PrometheusSource(settings, known=known)
    try:
        reading = source.read()
    finally:
        source.close()
    _say_left_out(reading, say)
    matched, unmatched = match_nodes(reading, names.get)
    fresh = matched.fresh_loads(reading.window_end, _MAX_AGE)
    if unmatched:
        say(f"left out the load of {len(unmatched)} instances that are no nodes, such as {unmatched[0]}")
    if len(fresh) < len(matched.loads):
        old = sorted(matched.loads.keys() - fresh.keys())
        say(f"left out the load of {len(old)} nodes that is older than {_MAX_AGE:.0f} s, such as {old[0]}")
    return watcher_document(
        fresh,
        source="Prometheus",
        window=settings.window,
        window_seconds=window_seconds(settings.window),
        end=reading.window_end,
        timestamp=reading.window_end,
    )
