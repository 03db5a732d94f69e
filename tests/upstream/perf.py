"""Measures our scheduler's throughput with kube-scheduler's own benchmark, scheduler_perf, beside the Go scheduler's.

    python -m tests.upstream.perf                                        # all that can be measured (hours)
    python -m tests.upstream.perf --workloads '^Scheduling.*/500Nodes$'
    python -m tests.upstream.perf --page                                 # write the section of docs/benchmarks.md

A run that is recorded already is not repeated, unless --again asks for it. Exit code: 0 when ours ends what the Go
scheduler ends, 1 if not, 2 on wrong usage, 130 when it was interrupted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from devcluster import releases
from devcluster.progress import ProgressReporter
from devcluster.toolchain import binaries
from tests.upstream import throughput, workloads
from tests.upstream.command import add_options, carry_out, pattern
from tests.upstream.running import Side
from tests.upstream.source import Source
from tests.upstream.suites import suite_of
from tests.upstream.throughput import RECORDED, Throughputs

MODE = Side.SAFE
"""Ours as it is by default."""


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.upstream.perf",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--workloads", type=pattern, default="", metavar="PATTERN", help="only those whose name matches"
    )
    add_options(parser, ".upstream-perf.json")
    parser.add_argument("--page", action="store_true", help="write the section of docs/benchmarks.md, nothing else")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, report: ProgressReporter, results: Throughputs, logs: Path) -> list[str]:
    """Measure what is chosen and not recorded; return what ours did not end, and the Go scheduler did."""
    release = releases.release_of(releases.DEFAULT)
    source = Source(suite_of("scheduler_perf", release), report)
    known = [
        workload
        for package in source.packages()
        for workload in workloads.read(package, source.package(package).directory)
    ]
    results.know(release.minor, known)
    chosen = [
        workload
        for workload in known
        if options.workloads.search(workload.name) and not workload.unlike_ours(release.minor)
    ]
    source.build(sorted({workload.package for workload in chosen}))
    etcd = binaries.ensure(["etcd"], report)["etcd"]
    unended: list[str] = []
    for workload in chosen:
        for side in (Side.GO, MODE):
            run = results.get(release.minor, workload, side)
            if run is None or options.again:
                with report.step(f"{workload.name}, {side}", announce=True):
                    place = logs / workload.name / side
                    run = throughput.measure(workload, source.package(workload.package), side, etcd, place)
                results.add(release.minor, workload, side, run)
                report.note(f"  {', '.join(f'{rate:.1f}' for rate in run.rates) or 'no'} pods/s: {place}")
            if side is MODE and not run.ended:
                unended.append(workload.name)
            if not run.rates:
                break
    return unended


def main(arguments: list[str]) -> int:
    """Do what the command line asks for."""
    options = _parse(arguments)
    if options.page:
        throughput.PAGE.write_text(throughput.page(Throughputs(RECORDED), MODE))
        return 0
    results = Throughputs(options.record)
    unended: list[str] = []
    if code := carry_out(lambda report, logs: unended.extend(_run(options, report, results, logs)), options.logs):
        return code
    print(results.table(releases.DEFAULT, MODE))
    for name in unended:
        print(f"{name}: ours does not end it, the Go scheduler does")
    return 1 if unended else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
