"""`make matrix`: what must work on every Kubernetes, on a control plane of each minor release that can be built.

Per minor: the binaries (built when they are missing), the demo's path, the operator's tests, part of the scheduler's,
a short race against that minor's kube-scheduler, and random cases asked of it and of ours. Arguments are the minors,
all by default, and `--cases N`. Those that nobody can build have a line that says so. Differences that a minor is
known for (tests/conformance/older.py) fail nothing. Exit code: 0 when every part of every minor passed, 1 otherwise;
the other parts still run. 2 for one named that is not known or cannot be built.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from devcluster import releases
from devcluster.errors import SpecError
from scheduler.catalog import minor_of

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")
SEED = 60_000
_SCHEDULER = ("start", "rights", "bindings", "flags", "volumes")
CASES = "cases"
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
    CASES: ["-m", "tests.conformance", "--seed", str(SEED), "--cases"],
}
_ASKED = re.compile(r"^(\d+) cases, .*?(\d+) mismatches", re.MULTILINE)


def run(minor: str, part: str, cases: int) -> str:
    """Run a part on a minor; returns what the table says about it."""
    print(f"\n=== Kubernetes {minor}: {part}", flush=True)
    environment = {**os.environ, releases.VARIABLE: minor, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    started = time.monotonic()
    if part == CASES:
        command = [PYTHON, *PARTS[part], str(cases), "--kubernetes", minor]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        return _verdict_of_cases(done.returncode, done.stdout)
    done = subprocess.run([PYTHON, *PARTS[part]], cwd=ROOT, env=environment, check=False, text=True)
    return f"{'passed' if done.returncode == 0 else 'FAILED'} {time.monotonic() - started:.0f} s"


def _verdict_of_cases(code: int, output: str) -> str:
    """`passed 100 of 100`, or `FAILED 12 in 100`: the answers that differ, of which a case may have several."""
    match = _ASKED.search(output)
    if match is None:
        return "FAILED"
    cases, differing = int(match[1]), int(match[2])
    return f"passed {cases} of {cases}" if code == 0 else f"FAILED {differing} in {cases}"


def rows(minors: list[str], cases: int) -> Iterator[tuple[str, dict[str, str] | str]]:
    """Run all parts for the minors, and yield their rows of the table; a text is why there are no parts."""
    for minor in minors:
        if minor in releases.UNOBTAINABLE:
            yield minor, f"cannot be built: {releases.UNOBTAINABLE[minor]}"
            continue
        release = releases.RELEASES[minor]
        if subprocess.run([PYTHON, "-m", "devcluster.toolchain", minor], cwd=ROOT, check=False).returncode:
            yield minor, "its build failed"
            continue
        # A kube-scheduler alone can be asked on the API server of another minor, and nothing else.
        parts = list(PARTS) if release.serves else [CASES]
        yield minor, {part: run(minor, part, cases) if part in parts else "-" for part in PARTS}


def main(arguments: list[str]) -> int:
    """Run all parts for the minors named, and print the table."""
    parser = argparse.ArgumentParser(prog="make matrix")
    parser.add_argument("minors", nargs="*", metavar="MINOR", help="such as 1.36 (all)")
    parser.add_argument("--cases", type=int, default=100, metavar="N", help="random cases per minor (100)")
    options = parser.parse_args(arguments)
    try:
        minors = [releases.release_of(text).minor for text in options.minors]
    except SpecError as error:
        print(f"matrix: {error}", file=sys.stderr)
        return 2
    everything = sorted({*releases.RELEASES, *releases.UNOBTAINABLE}, key=lambda minor: minor_of(minor) or 0)
    table = dict(rows(list(dict.fromkeys(minors)) or everything, options.cases))
    print(f"\ncommit {_commit()}, {datetime.now(UTC):%Y-%m-%d}")
    print(f"{'minor':8}" + "".join(f"{part:22}" for part in PARTS).rstrip())
    for minor, row in table.items():
        print(f"{minor:8}" + (row if isinstance(row, str) else "".join(f"{text:22}" for text in row.values()).rstrip()))
    failed = [minor for minor, row in table.items() if _fails(minor, row)]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True).stdout.strip() or "unknown"


def _fails(minor: str, row: dict[str, str] | str) -> bool:
    if isinstance(row, str):
        return minor not in releases.UNOBTAINABLE
    return any(text.startswith("FAILED") for text in row.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
