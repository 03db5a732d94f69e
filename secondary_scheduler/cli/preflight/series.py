"""Which series a Prometheus has instead of missing ones, and which label names the nodes."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Collection

from scheduler.load import LoadError, PrometheusSource

FIGURES = ("cpu_average", "cpu_stddev", "memory_average", "memory_stddev")
_KNOWN = (
    "instance:node_cpu:ratio|instance:node_cpu_utilisation:rate1m|instance:node_cpu_utilisation:rate5m"
    "|node_cpu_seconds_total|instance:node_memory_utilisation:ratio|node_memory_MemAvailable_bytes"
)
_CPU = {
    "instance:node_cpu:ratio": "instance:node_cpu:ratio",
    "instance:node_cpu_utilisation:rate5m": "instance:node_cpu_utilisation:rate5m",
    "instance:node_cpu_utilisation:rate1m": "instance:node_cpu_utilisation:rate1m",
    "node_cpu_seconds_total": '(1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])))',
}
_MEMORY = {
    "instance:node_memory_utilisation:ratio": "instance:node_memory_utilisation:ratio",
    "node_memory_MemAvailable_bytes": "(1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)",
}


def option(figure: str) -> str:
    """Return the figure's name under `load.queries`."""
    first, _, second = figure.partition("_")
    return first + second.capitalize()


def advice(source: PrometheusSource, figure: str) -> str:
    """Return what to write into `load.queries`, from the series that the Prometheus has."""
    existing: set[str] = set()
    with contextlib.suppress(LoadError):
        vector = source.ask(f'count by (__name__) ({{__name__=~"{_KNOWN}"}})', time.time())
        existing = {sample.labels.get("__name__", "") for sample in vector.samples}
    queries = _CPU if figure.startswith("cpu") else _MEMORY
    kind = "CPU" if queries is _CPU else "memory"
    for name, expression in queries.items():
        if name in existing:
            function = "avg_over_time" if figure.endswith("average") else "stddev_over_time"
            # Only an expression that is no plain series needs the resolution of a subquery.
            resolution = ":30s" if expression.startswith("(") else ""
            return f"it has {name}: set load.queries.{option(figure)}: {function}({expression}[$window{resolution}])"
    return f"it has no series of node-exporter for {kind}: is node-exporter installed and scraped by this Prometheus?"


def label_with(source: PrometheusSource, names: Collection[str]) -> str | None:
    """Return the label that holds a node's name on most series; None where no label does."""
    counted: Counter[str] = Counter()
    for expression in (source.expression(FIGURES[0]), "node_uname_info", "kube_node_info"):
        try:
            vector = source.ask(expression, time.time())
        except LoadError:
            continue
        for sample in vector.samples:
            counted.update(label for label, value in sample.labels.items() if value in names)
        if counted:
            return counted.most_common(1)[0][0]
    return None
