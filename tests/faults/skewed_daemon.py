"""`kube-scheduler` with a wall clock that is wrong: `python -m tests.faults.skewed_daemon FILE ARGUMENTS`.

The file holds the seconds that it is ahead. It may change while the daemon runs, as when somebody sets the machine's
clock. Everything of the process that asks for the wall time gets it; the monotonic clock goes on, as on a machine.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

_true_time = time.time


def skew(file: Path) -> None:
    """Set the wall clock of this process wrong. To be called before anything else is imported."""

    def skewed() -> float:
        return _true_time() + float(file.read_text() or 0)

    time.time = skewed
    time.time_ns = lambda: int(skewed() * 1e9)


if __name__ == "__main__":
    skew(Path(sys.argv[1]))
    from scheduler.__main__ import main

    sys.exit(main(sys.argv[2:]))
