"""Runs upstream's own integration tests with our scheduler in place of the Go one, which is the control.

    python -m tests.upstream                                 # everything that can be judged, on 1.34
    python -m tests.upstream --kubernetes 1.37 --packages filters,scoring --mode safe
    python -m tests.upstream --packages filters --test TestTaint --logs DIRECTORY
    python -m tests.upstream --suite scheduler-plugins       # theirs, on 1.34
    python -m tests.upstream --page                          # write docs/conformance.md from what is recorded

A run that is recorded already is not repeated, unless --again asks for it. Exit code: 0 when ours passes what the Go
scheduler passes, 1 if not, 2 on wrong usage, 130 when it was interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from devcluster import releases
from devcluster.errors import SpecError
from devcluster.progress import ProgressReporter
from tests.upstream import page, running
from tests.upstream.command import add_mode, add_options, carry_out, judge, pattern
from tests.upstream.results import Results
from tests.upstream.running import Side
from tests.upstream.servers import servers_of
from tests.upstream.source import Source
from tests.upstream.suites import SUITES, suite_of
from tests.upstream.unrunnable import is_unrunnable

UNBUILDABLE = {"1.38": "the Go module proxy lacks k8s.io/apiextensions-api"}


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.upstream", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    minor = os.environ.get(releases.VARIABLE) or releases.DEFAULT
    parser.add_argument("--kubernetes", default=minor, metavar="MINOR", help="whose tests (%(default)s)")
    parser.add_argument("--suite", default=SUITES[0], choices=SUITES, help="of which project (%(default)s)")
    parser.add_argument("--packages", default="", metavar="A,B", help="such as filters,preemption/misc (all)")
    parser.add_argument("--test", type=pattern, default="", metavar="PATTERN", help="only tests whose name matches")
    add_mode(parser)
    add_options(parser, ".upstream.json")
    parser.add_argument("--built", action="store_true", help="nothing, unless the chosen packages are built")
    parser.add_argument("--page", action="store_true", help="write docs/conformance.md, and do nothing else")
    options = parser.parse_args(arguments)
    if options.built and not options.packages:
        parser.error("--built needs --packages")
    if options.kubernetes in UNBUILDABLE:
        parser.error(f"--kubernetes {options.kubernetes}: {UNBUILDABLE[options.kubernetes]}")
    try:
        options.suite = suite_of(options.suite, releases.release_of(options.kubernetes))
    except SpecError as error:
        parser.error(f"--kubernetes: {error}")
    return options


def _named_packages(names: str) -> list[str]:
    return [name for name in names.split(",") if name]


def _chosen_packages(source: Source, names: str) -> list[str]:
    known = source.packages()
    packages = _named_packages(names) or known
    unknown = [name for name in packages if name not in known]
    if unknown:
        raise SpecError(f"--packages: no package {', '.join(unknown)}; one of {', '.join(known)}")
    return packages


def _run(options: argparse.Namespace, report: ProgressReporter, results: Results, logs: Path) -> list[str]:
    """Run what is chosen and not recorded; return the packages."""
    source = Source(options.suite, report)
    if options.built and not source.is_built(_named_packages(options.packages)):
        report.note(
            f"not run: the tests of {options.packages} are not built: make upstream PACKAGES={options.packages}"
        )
        return []
    packages = _chosen_packages(source, options.packages)
    source.build(packages)
    minor = options.suite.release.minor
    with servers_of(options.suite, report) as servers:
        for name in packages:
            package = source.package(name)
            with report.step(f"{minor} {name}", announce=True) as advance:
                judged = [test for test in running.names(package, servers) if not is_unrunnable(minor, name, test)]
                results.know(minor, name, judged)
                tests = [test for test in judged if re.search(options.test, test)]
                rows = [(test, side) for test in tests for side in (Side.GO, *options.mode)]
                for done, (test, side) in enumerate(rows):
                    advance(done, len(rows), "runs")
                    if not options.again and results.has(minor, name, test, side):
                        continue
                    place = logs / minor / name.replace("/", "-") / side / test
                    run = running.run(package, test, side, servers, place)
                    results.add(minor, name, test, side, run)
                    for case in run.failed:
                        report.note(f"  {side}: {case} failed: {place}")
                    for trouble in run.troubles:
                        report.note(f"  {side}: {test}: {trouble}: {place}")
    return packages


def main(arguments: list[str]) -> int:
    """Do what the command line asks for."""
    options = _parse(arguments)
    if options.page:
        page.write()
        return 0
    results = Results(options.record)
    packages: list[str] = []
    code = carry_out(lambda report, logs: packages.extend(_run(options, report, results, logs)), options.logs)
    if code or not packages:
        return code
    minor = options.suite.release.minor
    print(page.table(results, minor, packages))
    return judge(results, minor, packages, options.mode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
