# ruff: noqa: E501 -- the lines of the page are its own
"""Runs of workloads of scheduler_perf: one by one, recorded in a file after each, shown as a section of a page."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.upstream.running import CHECKOUT, Side, judged, printed
from tests.upstream.source import Package
from tests.upstream.workloads import LABEL, THROUGHPUT, Workload

RECORDED = Path(__file__).with_name("throughput.json")
"""What docs/benchmarks.md shows."""
PAGE = CHECKOUT / "docs" / "benchmarks.md"
LIMIT_SECONDS = 600
"""A workload that takes the Go scheduler longer is not run with ours."""
_MAX_NAMES = 5
_AT_ONCE = "within a second"
HEADING = "## kube-scheduler's own benchmarks\n"
_SECTION = re.compile(rf"^{re.escape(HEADING)}.*?(?=^## )", re.MULTILINE | re.DOTALL)
_INTRODUCTION = """
```console needs=hours
$ make upstream-perf                                      # what .upstream-perf.json does not have yet (hours)
$ make upstream-perf WORKLOADS='SchedulingBasic/500Nodes$' # a minute
$ python -m tests.upstream.perf --page                    # write this section from what is recorded in the repository
```

scheduler_perf is the benchmark of `k8s.io/kubernetes` itself. It is compiled as the tests of [conformance.md](conformance.md) are, starts an etcd and an API server for each
workload, and counts the pods that get a node. Ours is started in place of the Go scheduler, with its configuration, `compatibility: {side}` and `-v 2`; a workload runs with the Go scheduler
and with ours right after it. API server, controllers and the benchmark itself are one process, with the Go scheduler in it; ours is a process of its own. Other metrics than the
throughput are not shown: the benchmark reads them from its own process. Upstream's threshold is for upstream's machines, and no target here.
"""


@dataclass(frozen=True)
class Measured:
    """A run.

    Attributes:
        rates: average pods per second of each phase that the workload measures; none: all pods had a node within a
            second, which is when the benchmark looks, or it did not end.
        seconds: how long it took, with the start of the API server.
        ended: whether all pods had a node in time.
        load: load average of the machine's last minute when it began; NaN: not recorded.
    """

    rates: Sequence[float]
    seconds: float
    ended: bool = True
    load: float = math.nan


def measure(workload: Workload, package: Package, side: Side, etcd: Path, logs: Path) -> Measured:
    """Run a workload; `etcd` is its executable, `logs` a directory for what benchmark and scheduler print."""
    logs.mkdir(parents=True, exist_ok=True)
    began, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="upstream-") as temporary:
        place = Path(temporary)
        (place / "etcd").symlink_to(etcd)
        pattern = "/".join(f"^{re.escape(part)}$" for part in ("BenchmarkPerfScheduling", *workload.name.split("/")))
        command = [str(package.binary), "-test.run", "^$", "-test.benchtime", "1ns", "-test.bench", pattern]
        command += [f"-perf-scheduling-label-filter={LABEL}", f"-data-items-dir={place / 'items'}"]
        variables = {"PATH": f"{place}:{os.environ['PATH']}", **package.environment}
        variables |= judged(side, package.minor, logs, "-v 2")
        output = printed(command, package.directory, variables, LIMIT_SECONDS)
        (logs / "benchmark.log").write_text(output)
        items = [json.loads(file.read_text())["dataItems"] for file in (place / "items").glob("*.json")]
    measured = [rate for each in items for rate in rates(each)]
    # A rate below the threshold is a failure of the benchmark, too.
    return Measured(measured, time.monotonic() - began, bool(measured) or output.endswith("PASS\n"), load)


def rates(items: Sequence[Any]) -> Iterator[float]:
    """Yield the average throughput of each phase, of what a benchmark writes."""
    for item in items or ():
        if item["labels"]["Metric"] == THROUGHPUT:
            yield item["data"]["Average"]


class Throughputs:
    """Everything that a file has, by minor, workload and side, and what is added to it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._content: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}

    def get(self, minor: str, workload: Workload, side: Side) -> Measured | None:
        """The run that is recorded; None: none."""
        return self._measured(minor, workload.name, side)

    def add(self, minor: str, workload: Workload, side: Side, run: Measured) -> None:
        """Record a run, in the file, too."""
        row = self._release(minor)["workloads"].setdefault(workload.name, {"package": workload.package})
        row["threshold"] = workload.threshold
        row[side.value] = {"rates": [round(rate, 1) for rate in run.rates], "seconds": round(run.seconds, 1)}
        row[side.value] |= {} if math.isnan(run.load) else {"load": round(run.load, 1)}
        row[side.value] |= {} if run.ended else {"ended": False}
        self._write()

    def know(self, minor: str, workloads: Sequence[Workload]) -> None:
        """Record what a minor has: not all may be measured, and some cannot be run with ours."""
        unlike = {workload.name: workload.unlike_ours(minor) for workload in workloads}
        release = self._release(minor)
        release["left out"] = {name: f"ours cannot set {gates}" for name, gates in unlike.items() if gates}
        release["known"] = len(unlike) - len(release["left out"])
        self._write()

    def table(self, minor: str, side: Side) -> str:
        """A Markdown table of a minor: what both schedulers have ended."""
        lines = [
            "| workload | Go, pods/s | ours, pods/s | ours : Go | upstream's threshold | seconds: Go, ours |",
            "|---|---|---|---|---|---|",
        ]
        for name, row in sorted(self._workloads(minor).items(), key=lambda item: (item[1]["package"], item[0])):
            go, ours = self._measured(minor, name, Side.GO), self._measured(minor, name, side)
            if go is None or ours is None or not go.rates:
                continue
            threshold = "–" if row["threshold"] is None else f"{row['threshold']:g}"
            ratio = ", ".join(f"{own / other:.2g}" for own, other in zip(ours.rates, go.rates, strict=False)) or "–"
            cells = (f"`{name}`", _rates(go), _rates(ours), ratio, threshold, f"{go.seconds:.0f}, {ours.seconds:.0f}")
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def section(self, side: Side) -> str:
        """The section of docs/benchmarks.md."""
        parts = [HEADING, _INTRODUCTION.replace("{side}", side.value)]
        for minor, release in sorted(self._content.items()):
            loads = [row[of]["load"] for row in release["workloads"].values() for of in row if _has_load(row[of])]
            busy = f" at a load of {min(loads):.0f} to {max(loads):.0f}" if loads else ""
            ran = f"{len(release['workloads'])} of {release['known']} workloads"
            title = f"{minor}, {ran}, two cores{busy}, recorded on {release['recorded']}:"
            parts.append(f"\n{title}\n\n{self.table(minor, side)}\n")
            reasons: dict[str, list[str]] = {}
            for name, why in sorted({**dict(self._unmeasured(minor)), **release["left out"]}.items()):
                reasons.setdefault(why, []).append(f"`{name}`")
            parts += [f"\nNot measured, as {why}: {_listed(names)}.\n" for why, names in sorted(reasons.items())]
        return "".join([*parts, "\n"])

    def _unmeasured(self, minor: str) -> Iterator[tuple[str, str]]:
        """Yield workloads that the Go scheduler gives no figure for, with the reason."""
        for name in self._workloads(minor):
            go = self._measured(minor, name, Side.GO)
            if go is not None and not go.ended:
                yield name, f"the Go scheduler does not end it in {LIMIT_SECONDS} s"
            elif go is not None and not go.rates:
                yield name, f"the Go scheduler gives all its pods a node {_AT_ONCE}"

    def _release(self, minor: str) -> dict[str, Any]:
        """What is recorded of a minor, to be changed now."""
        release: dict[str, Any] = self._content.setdefault(minor, {"workloads": {}, "left out": {}, "known": 0})
        release["recorded"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        return release

    def _workloads(self, minor: str) -> dict[str, Any]:
        workloads: dict[str, Any] = self._content.get(minor, {}).get("workloads", {})
        return workloads

    def _measured(self, minor: str, name: str, side: Side) -> Measured | None:
        row = self._workloads(minor).get(name, {}).get(side.value)
        return row and Measured(row["rates"], row["seconds"], row.get("ended", True), row.get("load", math.nan))

    def _write(self) -> None:
        temporary = self._file.with_name(f".{self._file.name}.tmp")
        temporary.write_text(json.dumps(self._content, indent=1, sort_keys=True) + "\n")
        temporary.replace(self._file)


def page(results: Throughputs, side: Side) -> str:
    """docs/benchmarks.md with the section as it follows from the results."""
    return _SECTION.sub(lambda _: results.section(side), PAGE.read_text())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MAX_NAMES else f"{len(names)} workloads"


def _has_load(cell: Any) -> bool:
    return isinstance(cell, dict) and "load" in cell


def _rates(run: Measured) -> str:
    return ", ".join(f"{rate:.0f}" for rate in run.rates) or (f"all {_AT_ONCE}" if run.ended else "does not end")
