"""CPU time and memory of a process, from /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED = 2


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, user and system, in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def processor_seconds(pid: int) -> float:
    """The same in nanoseconds' resolution, by the process's own clock."""
    return time.clock_gettime_ns(~pid << 3 | _CPUCLOCK_SCHED) / 1e9


def peak_memory(pid: int) -> int:
    """The most resident memory that a process ever had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} shows no peak of its memory")


def stolen_seconds() -> float:
    """Processor time that the hypervisor gave to others, over all cores, since boot."""
    return int(Path("/proc/stat").read_text().split(maxsplit=10)[8]) / _TICK
