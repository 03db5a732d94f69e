"""The JSON that load-watcher serves at `/watcher`: measured load of nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from scheduler.framework import LoadTable, NodeLoad
from secondary_scheduler.cli.simulation.report import InputError, with_field

LOAD_API_VERSION = "secondary-scheduler.io/v1"
LOAD_KIND = "NodeLoad"
"""Kind under which a snapshot file carries such an answer as one more document."""


class _Metric(Struct):
    type: str | None = None
    operator: str | None = None
    value: float | None = None


class _NodeMetrics(Struct):
    metrics: list[_Metric] | None = None


class _Data(Struct):
    nodes: dict[str, _NodeMetrics | None] | None = msgspec.field(default=None, name="NodeMetricsMap")


class _Window(Struct):
    start: float | None = None
    end: float | None = None


class _Answer(Struct):
    timestamp: float | None = None
    window: _Window | None = None
    data: _Data | None = None


_decoder = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """One answer; times are seconds since the epoch, 0 where it says none, which counts as fresh."""

    timestamp: float
    window_start: float
    window_end: float
    nodes: Mapping[str, NodeLoad] = field(default_factory=dict)

    def table(self, source: str) -> LoadTable:
        """Return it as the answer of a source."""
        return LoadTable(source, self.timestamp, self.window_end, self.nodes, self.window_start)


def read_load(data: Any, file: str) -> MeasuredLoad:
    """Read an answer as leniently as load-watcher's client: unknown fields, absent ones and nulls are no mistakes.

    Raises:
        InputError: it is not JSON (a bare NaN is not), or a field has the wrong type.
    """
    try:
        answer = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file}: not the JSON of load-watcher's /watcher: {with_field(error)}") from error
    window = answer.window or _Window()
    nodes = answer.data.nodes if answer.data is not None else None
    return MeasuredLoad(
        timestamp=answer.timestamp or 0.0,
        window_start=window.start or 0.0,
        window_end=window.end or 0.0,
        nodes={
            name: _node_load(node.metrics) for name, node in (nodes or {}).items() if node is not None and node.metrics
        },
    )


def _node_load(metrics: list[_Metric]) -> NodeLoad:
    """Return a node's load. A list may hold several CPU averages: plugins differ in which of them they read."""
    cpu = [metric for metric in metrics if metric.type == "CPU"]
    averages = [metric.value or 0.0 for metric in cpu if metric.operator in ("AVG", "Latest")] or [math.nan]
    return NodeLoad(
        cpu_average=_average(cpu),
        cpu_stddev=_last(cpu, "STD"),
        memory_average=_average([metric for metric in metrics if metric.type == "Memory"]),
        memory_stddev=_last([metric for metric in metrics if metric.type == "Memory"], "STD"),
        cpu_first=averages[0],
        cpu_last=averages[-1],
    )


def _average(metrics: Sequence[_Metric]) -> float:
    """Return the last AVG, else the last that is Latest or says nothing."""
    found = _last(metrics, "AVG")
    return _last(metrics, "Latest", "", None) if math.isnan(found) else found


def _last(metrics: Sequence[_Metric], *operators: str | None) -> float:
    found = [metric.value or 0.0 for metric in metrics if metric.operator in operators]
    return found[-1] if found else math.nan
