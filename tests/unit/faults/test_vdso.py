"""A process whose wall clock is set by way of its vDSO: it reads another time, and its other clocks go on."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests.faults.vdso import set_wall_clock

HOUR = 3600
ANSWER_ON_DEMAND = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="it writes machine code"
)


def clocks(process: subprocess.Popen[str]) -> tuple[float, float]:
    """The wall clock and the monotonic clock as a process reads them."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    wall, monotonic = process.stdout.readline().split()
    return float(wall), float(monotonic)


def test_the_wall_clock_moves_and_the_monotonic_clock_does_not() -> None:
    command = [sys.executable, "-c", ANSWER_ON_DEMAND]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            for seconds in (HOUR, -HOUR, 0):
                wall, monotonic = clocks(process)
                was_wrong_by = round((wall - monotonic) / HOUR)
                set_wall_clock(process.pid, seconds)
                later, monotonic_later = clocks(process)
                assert monotonic <= monotonic_later < monotonic + HOUR
                expected = {HOUR: 1, -HOUR: -2, 0: 1}[seconds]
                assert round((later - monotonic_later) / HOUR) == was_wrong_by + expected
        finally:
            process.kill()
