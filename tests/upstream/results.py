"""Results of runs, by minor, package, test and side: recorded in a file after each, counted for tables."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.upstream.running import Run, Side

RECORDED: Mapping[str, Path] = {
    "kube-scheduler": Path(__file__).with_name("results.json"),
    "scheduler-plugins": Path(__file__).with_name("schedulerplugins.json"),
    "e2e": Path(__file__).with_name("specs.json"),
}
"""What docs/conformance.md shows, by suite."""
NEVER_STARTED = "never starts the scheduler: it drives parts of the Go one"
NOT_RUN = "not run"


@dataclass
class Counts:
    """Cases of a package on one side: tests, and subtests in place of those that have some.

    Attributes:
        passed: how many passed.
        failed: names of those that failed.
        left_out: how many say nothing of this side.
        reasons: why, as `test: reason`, beside what is not run at all (`unrunnable.UNRUNNABLE`).
        seconds: how long all took, one after the other.
        tests: how many tests were run.
    """

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    left_out: int = 0
    reasons: list[str] = field(default_factory=list)
    seconds: float = 0.0
    tests: int = 0


class Results:
    """Everything that a file has, and what is added to it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._content: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}

    def has(self, minor: str, package: str, test: str, side: Side) -> bool:
        """Whether the run is recorded."""
        return side.value in self._tests(minor, package).get(test, {})

    def know(self, minor: str, package: str, tests: Sequence[str]) -> None:
        """Record which tests a package has that can be judged: not all of them may have been run."""
        release = self._content.setdefault(minor, {"recorded": _today()})
        release.setdefault("tests", {})[package] = len(tests)
        self._write()

    def known(self, minor: str, package: str) -> int:
        """How many tests a package has that can be judged."""
        return int(self._content.get(minor, {}).get("tests", {}).get(package, 0))

    def add(self, minor: str, package: str, test: str, side: Side, run: Run) -> None:
        """Record a run, in the file, too."""
        row: dict[str, Any] = {"passed": run.passed, "seconds": round(run.seconds, 1)}
        if run.failed:
            row["failed"] = run.failed
        if run.skipped:
            row["skipped"] = run.skipped
        if side is not Side.GO and run.unjudged:
            row["unjudged"] = "; ".join(sorted(set(run.unjudged)))
        elif side is not Side.GO and run.passed and not run.started:
            row["unjudged"] = NEVER_STARTED
        release = self._content.setdefault(minor, {})
        release["recorded"] = _today()
        release.setdefault("packages", {}).setdefault(package, {}).setdefault(test, {})[side.value] = row
        self._write()

    def minors(self) -> list[str]:
        """Those that have results."""
        return sorted(self._content)

    def recorded(self, minor: str) -> str:
        """The day of the last run, as 2026-11-28."""
        return str(self._content[minor]["recorded"])

    def packages(self, minor: str) -> list[str]:
        """Those that have results."""
        return sorted(self._content.get(minor, {}).get("packages", {}))

    def tests(self, minor: str, package: str) -> list[str]:
        """Those of a package that have results."""
        return sorted(self._tests(minor, package))

    def counts(self, minor: str, package: str, side: Side, test: str = "") -> Counts | None:
        """Count a side's cases, all or those of a test; None: it was not run. What the Go scheduler passes, and was not
        asked of ours, is left out."""
        tests = {name: sides for name, sides in self._tests(minor, package).items() if test in ("", name)}
        if not any(side.value in sides for sides in tests.values()):
            return None
        counts = Counts()
        for name, sides in tests.items():
            row = sides.get(side.value)
            if row is None:
                continue
            counts.tests += 1
            counts.seconds += row["seconds"]
            own = row["passed"] + len(row.get("failed", ()))
            if "unjudged" in row:
                counts.left_out += own
                counts.reasons.append(f"{name}: {row['unjudged']}")
                continue
            counts.passed += row["passed"]
            counts.failed += row.get("failed", ())
            control = sides.get(Side.GO.value, {})
            counts.left_out += max(0, control.get("passed", 0) + len(control.get("failed", ())) - own)
        return counts

    def failures(self, minor: str) -> Iterator[tuple[str, str, Side]]:
        """Yield package, case and side of every failure that counts."""
        for package in self.packages(minor):
            for side in Side:
                counts = self.counts(minor, package, side)
                for case in counts.failed if counts else ():
                    yield package, case, side

    def _write(self) -> None:
        temporary = self._file.with_name(f".{self._file.name}.tmp")
        temporary.write_text(json.dumps(self._content, indent=1, sort_keys=True) + "\n")
        temporary.replace(self._file)

    def _tests(self, minor: str, package: str) -> dict[str, dict[str, Any]]:
        tests: dict[str, dict[str, Any]] = self._content.get(minor, {}).get("packages", {}).get(package, {})
        return tests


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()
