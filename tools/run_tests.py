"""Runs the parts of the test suite in order and prints how long each took.

The parts: `check` (lint, format, types, import contracts), `unit` (no network), `integration` (the real control
plane, one part at a time), `e2e` (the whole product on a cluster of its own), `bench-smoke` (a short race against
kube-scheduler). FULL=1 adds the long runs.
Exit code: 0 when every part passed, else 1; the parts after a failed one still run, so that one look shows all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
SHIPPED = ["scheduler", "secondary_scheduler", "components", "stacks"]

SELECTION = "" if os.environ.get("FULL") == "1" else " and not slow"


def pytest(*arguments: str) -> list[str]:
    """A pytest command line with the interpreter of the environment."""
    return [str(BIN / "python"), "-m", "pytest", "-q", *arguments]


PARTS: dict[str, list[list[str]]] = {
    "check": [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "ruff"), "format", "--check", "."],
        [str(BIN / "mypy"), *(f"-p{package}" for package in SHIPPED)],
        [str(BIN / "lint-imports")],
    ],
    "unit": [
        pytest(
            "-n",
            "2",
            "--dist",
            "loadfile",
            *("-m", f"not integration{SELECTION}"),
            *("tests/unit", "tests/components", "tests/conformance"),
        )
    ],
    "toolchain": [[str(BIN / "python"), "-m", "secondary_scheduler.devcluster.toolchain"]],
    # They mostly wait for others: two at a time, each worker with a control plane of its own.
    "integration": [
        pytest(
            *("-n", "2", "--dist", "loadfile", "--durations", "10"),
            *("-m", f"integration{SELECTION}"),
            *("tests/integration", "tests/components", "tests/faults", "tests/conformance"),
        )
    ],
    # Each file has clusters of its own.
    "e2e": [pytest("-n", "2", "--dist", "loadfile", "--durations", "10", "-m", f"e2e{SELECTION}", "tests/e2e")],
    # Against the real kube-scheduler on this machine: ratios, not times.
    "bench-smoke": [
        [
            *(str(BIN / "python"), "-m", "benchmarks", "race", "--scenario", "SchedulingBasic", "--label", "smoke"),
            *("--rounds", "2", "--check"),
        ]
    ],
}


def run_part(name: str) -> bool:
    """Run every command of a part; a part passes when all do."""
    print(f"\n=== {name}", flush=True)
    start = time.monotonic()
    results = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in PARTS[name]]
    passed = not any(results)
    print(f"=== {name}: {'passed' if passed else 'FAILED'} in {time.monotonic() - start:.0f} s", flush=True)
    return passed


def main(names: list[str]) -> int:
    """Run the named parts; the binaries are built (or found) before the first part that needs them."""
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        print(
            f"run_tests: no part named {', '.join(unknown) or '(none given)'}; one of {', '.join(PARTS)}",
            file=sys.stderr,
        )
        return 2
    if needing := {"integration", "e2e", "bench-smoke"} & set(names):
        first = min(map(names.index, needing))
        names = [*names[:first], "toolchain", *names[first:]]
    os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"
    started = time.monotonic()
    outcome = {name: run_part(name) for name in names}
    print(f"\n=== all: {time.monotonic() - started:.0f} s")
    failed = [name for name, passed in outcome.items() if not passed]
    if failed:
        print(f"=== failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
