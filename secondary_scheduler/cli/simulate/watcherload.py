"""The JSON that load-watcher serves at `/watcher`, from a file or from a snapshot, as the scheduler would read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.framework import LoadTable, NodeLoad
from secondary_scheduler.cli.simulate.report import InputError, Report

LOAD_API_VERSION = "secondary-scheduler.io/v1"
LOAD_KIND = "NodeLoad"
"""Kind under which a snapshot file carries such an answer as one more document."""


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """One answer; times are seconds since the epoch, 0 where it says none, which counts as fresh."""

    window_start: float
    window_end: float
    timestamp: float = 0.0
    nodes: Mapping[str, NodeLoad] = field(default_factory=dict)

    def table(self, source: str) -> LoadTable:
        """Return it as the answer of a source."""
        return LoadTable(source, self.timestamp, self.window_end, self.nodes, self.window_start)


def read_load(data: bytes, where: str, report: Report) -> MeasuredLoad:
    """Read an answer.

    Raises:
        InputError: it is not JSON, or a field has the wrong type.
    """
    # Here, since the package brings every source and its HTTP libraries.
    from scheduler.load import LoadError, parse_watcher

    try:
        reading = parse_watcher(data, where)
    except LoadError as error:
        raise InputError(str(error)) from error
    rejected = sum(reading.rejected.values())
    if rejected:
        report.warn(f"{where}: values that cannot be a load left out: {rejected}")
    nodes = {
        name: NodeLoad(
            cpu_average=load.cpu_average,
            cpu_stddev=load.cpu_stddev,
            memory_average=load.memory_average,
            memory_stddev=load.memory_stddev,
            timestamp=0.0 if math.isnan(load.measured_at) else load.measured_at,
            cpu_first=load.cpu_first,
            cpu_last=load.cpu_last,
        )
        for name, load in reading.instances.items()
    }
    newest = max((load.timestamp for load in nodes.values()), default=0.0)
    return MeasuredLoad(reading.window_start or 0.0, reading.window_end, newest, nodes)
