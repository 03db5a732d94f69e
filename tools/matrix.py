"""`make matrix`: what must work on every Kubernetes, on a control plane of each minor release that can be built.

Per minor: the binaries (built when they are missing), the demo's path, the operator's tests, part of the scheduler's,
and a short race against that minor's kube-scheduler. Arguments are the minors, all by default. Exit code: 0 when every
part of every minor passed, 1 otherwise; the other parts still run. 2 for a minor that has no control plane.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from devcluster import releases
from devcluster.errors import SpecError

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")
_SCHEDULER = ("start", "rights", "bindings", "flags", "volumes")
PARTS: dict[str, list[str]] = {
    "demo": ["-m", "pytest", "-q", "-m", "e2e and not slow", "tests/e2e/test_main_job.py"],
    "operator": ["-m", "pytest", "-q", "-m", "integration and not slow", "tests/integration/operator"],
    "scheduler": [
        *("-m", "pytest", "-q", "-m", "integration and not slow"),
        *(f"tests/integration/scheduler/test_{name}.py" for name in _SCHEDULER),
    ],
    "race": [
        *("-m", "benchmarks", "race", "--scenario", "SchedulingBasic", "--label", "smoke", "--rounds", "2", "--check"),
    ],
}


def run(minor: str, part: str) -> str:
    """Run a part on a minor; returns what the table says about it."""
    print(f"\n=== Kubernetes {minor}: {part}", flush=True)
    environment = {**os.environ, releases.VARIABLE: minor, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    started = time.monotonic()
    done = subprocess.run([PYTHON, *PARTS[part]], cwd=ROOT, env=environment, check=False)
    return f"{'passed' if done.returncode == 0 else 'FAILED'} {time.monotonic() - started:.0f} s"


def main(arguments: list[str]) -> int:
    """Run all parts for the minors named, and print the table."""
    try:
        minors = [releases.control_plane_of(text).minor for text in arguments] or list(releases.CONTROL_PLANES)
    except SpecError as error:
        print(f"matrix: {error}", file=sys.stderr)
        return 2
    table: dict[str, dict[str, str]] = {}
    for minor in minors:
        built = subprocess.run([PYTHON, "-m", "devcluster.toolchain", minor], cwd=ROOT, check=False)
        if built.returncode:
            table[minor] = dict.fromkeys(PARTS, "not built")
            continue
        table[minor] = {part: run(minor, part) for part in PARTS}
    print(f"\n{'minor':8}" + "".join(f"{part:16}" for part in PARTS))
    for minor, row in table.items():
        print(f"{minor:8}" + "".join(f"{text:16}" for text in row.values()))
    return int(any(not text.startswith("passed") for row in table.values() for text in row.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
