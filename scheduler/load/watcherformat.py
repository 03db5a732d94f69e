"""Loads as the JSON that a load-watcher serves (paypal/load-watcher v0.2.4), for `/watcher` and for snapshots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scheduler.framework import NodeLoad
from scheduler.load.figures import is_usable

_FIGURES = (
    ("CPU", "AVG", "cpu_average"),
    ("CPU", "STD", "cpu_stddev"),
    ("Memory", "AVG", "memory_average"),
    ("Memory", "STD", "memory_stddev"),
)


def watcher_document(
    loads: Mapping[str, NodeLoad],
    *,
    source: str,
    window: str,
    window_seconds: float,
    end: float,
    timestamp: float,
) -> dict[str, Any]:
    """Return the document; times are seconds since the epoch and become whole ones, as upstream's.

    A value that cannot be a load is left out, so that the document never holds a NaN, which is not JSON.

    Args:
        loads: by node name.
        source: type of the source, as load-watcher names it.
        window: averaging window, as a Prometheus duration.
        window_seconds: the same in seconds.
        end: end of the window.
        timestamp: when the source answered.
    """
    whole = math.floor(end)
    return {
        "timestamp": math.floor(timestamp),
        "window": {"duration": window, "start": whole - math.floor(window_seconds), "end": whole},
        "source": source,
        "data": {
            "NodeMetricsMap": {
                name: {
                    "metrics": _metrics(load, window),
                    "tags": {},
                    "metadata": {"dataCenter": ""},
                }
                for name, load in sorted(loads.items())
            }
        },
    }


def _metrics(load: NodeLoad, rollup: str) -> list[dict[str, Any]]:
    metrics = []
    for kind, operator, figure in _FIGURES:
        value: float = getattr(load, figure)
        if is_usable(value):
            metrics.append({"name": "", "type": kind, "operator": operator, "rollup": rollup, "value": value})
    return metrics
