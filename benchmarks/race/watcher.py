"""A fake load-watcher: it reports the same, always fresh loads to all contestants."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from devcluster import ports

_WINDOW = 900


def loads(nodes: list[str]) -> dict[str, float]:
    """A CPU load in percent for each node: 5 to 44, in no order that a scheduler could profit from."""
    return {name: 5.0 + (number * 37) % 40 for number, name in enumerate(nodes)}


def data_of(loads_of: Mapping[str, float]) -> str:
    """Return what a load-watcher says of nodes with such CPU loads, as JSON."""
    metrics = {
        name: {
            "metrics": [
                {"name": "host.cpu.utilization", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": load},
                {"name": "host.cpu.utilization", "type": "CPU", "operator": "STD", "rollup": "15m", "value": load / 10},
                {"name": "host.mem.utilization", "type": "Memory", "operator": "AVG", "rollup": "15m", "value": load},
                {"name": "host.mem.utilization", "type": "Memory", "operator": "STD", "rollup": "15m", "value": 1.0},
            ],
            "tags": {},
            "metadata": {"dataCenter": ""},
        }
        for name, load in loads_of.items()
    }
    return json.dumps({"NodeMetricsMap": metrics}, separators=(",", ":"))


def document(data: str, end: int) -> bytes:
    """Return a load-watcher's answer: its `data` as JSON, for a window that ends then, in seconds since the epoch."""
    window = json.dumps({"duration": "15m", "start": end - _WINDOW, "end": end})
    return f'{{"timestamp":{end},"window":{window},"source":"race","data":{data}}}'.encode()


@contextlib.contextmanager
def serving(loads_of: Mapping[str, float]) -> Iterator[str]:
    """Serve `/watcher` while the block runs; yields the address."""
    data = data_of(loads_of)

    with ports.serving(lambda: document(data, int(time.time()))) as address:
        yield address


_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, user and system, in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def peak_memory(pid: int) -> int:
    """The most resident memory that a process ever had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} shows no peak of its memory")


def stolen_seconds() -> float:
    """Processor time that the hypervisor gave to others, over all cores, since boot."""
    return int(Path("/proc/stat").read_text().split(maxsplit=10)[8]) / _TICK
