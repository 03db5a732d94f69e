"""Runs the parts of the test suite in order and prints how long each took.

The parts: `check` (lint, format, types, import contracts), `unit` (no network), `browser` (the pages of `ui` in
Chromium), `integration` (the real control plane, one part at a time), `e2e` (the whole product on a cluster of its
own), `live` (these two in one run, so that no worker idles in between), `upstream` (three minutes of kube-scheduler's
own tests, where they are built), `bench-smoke` (a short race against kube-scheduler). FULL=1 adds the long runs.
`check` runs beside `unit`, as mypy keeps only one core busy; what it printed follows.
Exit code: 0 when every part passed, else 1; the parts after a failed one still run, so that one look shows all.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
SELECTION = "" if os.environ.get("FULL") == "1" else " and not slow"


def pytest(*arguments: str) -> list[str]:
    """A pytest command line with the interpreter of the environment."""
    return [str(BIN / "python"), "-m", "pytest", "-q", *arguments]


def integration_files() -> list[str]:
    """What needs the real control plane; what takes longest comes first."""
    parts = ["tests/faults", "tests/conformance", "tests/integration/scheduler", "tests/integration/operator"]
    parts += sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests/integration").iterdir() if file.is_dir())
    paths = dict.fromkeys([*parts, "tests/components"])
    return [str(file.relative_to(ROOT)) for part in paths for file in sorted((ROOT / part).rglob("test_*.py"))]


def e2e_files() -> list[str]:
    """The whole product; each file has clusters of its own."""
    return [str(file.relative_to(ROOT)) for file in sorted((ROOT / "tests/e2e").glob("test_*.py"))]


BUSY = (
    "tests/e2e/test_main_job.py",
    "tests/e2e/test_install_modes.py",
    "tests/e2e/test_fleet.py",
    "tests/components/test_offline_preview.py",
    "tests/components/test_preview_of_changes.py",
    "tests/integration/scheduler/test_handover.py",
    "tests/integration/alerts/test_alerts.py",
    "tests/integration/cli/test_snapshot.py",
    "tests/integration/config/test_write_config.py",
    "tests/integration/config/test_image_table.py",
)
"""What `make test` waits for longest, in that order: begun last, one of them would run alone in the end."""


def live_files() -> list[str]:
    """Files that keep a core busy, the longest first, mixed with files that mostly wait: two of those after each."""
    busy = [*BUSY, *(file for file in e2e_files() if file not in BUSY)]
    rest = [file for file in integration_files() if file not in BUSY]
    mixed = [file for busy_file in busy for file in (busy_file, *(rest.pop(0) for _ in range(2) if rest))]
    return mixed + rest


def servers(marker: str, files: list[str]) -> list[str]:
    """Tests that start servers. They mostly wait for others, so that four run at a time on two cores. A file stays on
    one worker, which has a control plane of its own, and files begin in the order given."""
    scheduling = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
    return pytest(*scheduling, "--durations", "25", "-m", f"({marker}){SELECTION}", *files)


TOOLCHAIN = [str(BIN / "python"), "-m", "devcluster.toolchain", *(("--all",) if not SELECTION else ())]
"""Builds the binaries that servers need, or finds them."""

PARTS: dict[str, list[list[str]]] = {
    "check": [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "ruff"), "format", "--check", "."],
        [str(BIN / "mypy")],  # what pyproject.toml names
        [str(BIN / "mypy"), "-p", "tests.support", "-p", "tests.conformance", "-p", "tests.upstream"],
        [str(BIN / "python"), "tools/lint_names.py"],
        [str(BIN / "python"), "tools/lint_doors.py"],
        [str(BIN / "python"), "tools/harm.py", "--check"],
        # Without its cache, which goes by the times of files: a checkout may set them back.
        [str(BIN / "lint-imports"), "--no-cache"],
        [str(BIN / "python"), "tools/architecture.py", "--check"],
        [str(BIN / "python"), "tools/schemas.py", "--check"],
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
    # In Chromium; `make browser` installs it.
    "browser": [pytest("tests/browser")],
    "integration": [TOOLCHAIN, servers("integration", integration_files())],
    "e2e": [TOOLCHAIN, servers("e2e", e2e_files())],
    "live": [TOOLCHAIN, servers("integration or e2e", live_files())],
    # Five of kube-scheduler's own tests, ours and the control; `make upstream` builds them.
    "upstream": [
        TOOLCHAIN,
        [
            *(str(BIN / "python"), "-m", "tests.upstream", "--packages", "filters,scoring", "--built"),
            *("--test", "^TestNode(Affinity|Resources)|^TestImage", "--mode", "upstream"),
            *("--again", "--record", ".upstream-sample.json"),
        ],
    ],
    # Against the real kube-scheduler on this machine: ratios, not times.
    "bench-smoke": [
        TOOLCHAIN,
        [
            *(str(BIN / "python"), "-m", "benchmarks", "race", "--scenario", "SchedulingBasic", "--label", "smoke"),
            *("--rounds", "2", "--check"),
        ],
    ],
}

AT_ONCE = ("check", "unit")
"""Not `live`: beside it these take twice as long on two cores, and it measures loads while they take the cores."""

ENVIRONMENT = {part: {"GOGC": "400"} for part in ("integration", "e2e", "live")}
"""Dozens of API servers start and end: processor time is short, memory is not."""


def run_part(name: str, output: IO[str] | None = None, priority: tuple[str, ...] = ()) -> bool:
    """Run every command of a part, which prints to a file or to the screen; a part passes when all do. `priority` goes
    before each command."""
    print(f"\n=== {name}", file=output, flush=True)
    start = time.monotonic()
    environment = {**os.environ, **ENVIRONMENT.get(name, {})}
    commands = PARTS[name]
    results = [
        subprocess.run(
            [*priority, *command], cwd=ROOT, env=environment, check=False, stdout=output, stderr=output
        ).returncode
        for command in commands
    ]
    passed = not any(results)
    outcome = f"{'passed' if passed else 'FAILED'} in {time.monotonic() - start:.0f} s"
    print(f"=== {name}: {outcome}", file=output, flush=True)
    return passed


def run_at_once(names: list[str]) -> dict[str, bool]:
    """Run parts at a time; the output of all but the last is kept until that has ended. The last one, which takes
    longest, goes first where cores are short."""
    *beside, last = names
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(names)) as threads:
        kept = {name: stack.enter_context(tempfile.TemporaryFile("w+")) for name in beside}
        running = {name: threads.submit(run_part, name, file, ("nice", "-n", "5")) for name, file in kept.items()}
        outcome = {last: run_part(last)}
        for name, file in kept.items():
            outcome[name] = running[name].result()
            file.seek(0)
            print(file.read(), flush=True)
    return outcome


def run_all(names: list[str]) -> dict[str, bool]:
    """Run parts in their order; returns which passed."""
    outcome: dict[str, bool] = {}
    for together, group in itertools.groupby(names, AT_ONCE.__contains__):
        for parts in [list(group)] if together else ([name] for name in group):
            outcome |= run_at_once(parts)
    return outcome


def main(names: list[str]) -> int:
    """Run the named parts."""
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        print(
            f"run_tests: no part named {', '.join(unknown) or '(none given)'}; one of {', '.join(PARTS)}",
            file=sys.stderr,
        )
        return 2
    # A run starts hundreds of interpreters: what they import is compiled once, whatever the caller's environment says.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"
    started = time.monotonic()
    outcome = run_all(names)
    print(f"\n=== all: {time.monotonic() - started:.0f} s")
    failed = [name for name, passed in outcome.items() if not passed]
    if failed:
        print(f"=== failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
