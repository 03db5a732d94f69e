# ruff: noqa: E501 -- the lines of the page are its own
"""The table of a run, and docs/conformance.md of what is recorded in the repository."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from devcluster.releases import RELEASES
from tests.upstream.results import NOT_RUN, RECORDED, Counts, Results
from tests.upstream.running import CHECKOUT, Side
from tests.upstream.unrunnable import rows

PAGE = CHECKOUT / "docs" / "conformance.md"
_SIDES: Mapping[Side, str] = {Side.GO: "Go", Side.UPSTREAM: "ours, `upstream`", Side.SAFE: "ours, `safe`"}
_NOMINATES = "an alpha gate of 1.34: ours nominates before a binding from 1.35 on"
_WITHOUT_HINTS = "emulates 1.33 without queueing hints, which cannot be turned off in 1.34"
_COMPARISONS = "feature gates but five: `TaintTolerationComparisonOperators` is alpha"
_EXPLAINED: Mapping[str, str] = {
    r"Test_PutNominatedNodeNameInBindingCycle/NominatedNodeName_is_put_if_P\w+_will_run.*": _NOMINATES,
    r"TestPreEnqueuePluginEventsToRegister/\w+_without_event_registered_queueHint\(false\)": _WITHOUT_HINTS,
    r"TestTaint\w+/.*([GL]t_|Operators_enabled:_true).*": _COMPARISONS,
    "TestTaintTolerationGtLtIntegration": _COMPARISONS,
    r"TestPodGroupScheduling/.*TopologyAwareWorkloadScheduling_enabled:_true.*": "topology of PodGroups",
    r"TestPodGroupScheduling/gang_schedules_with_.*workload-aware_preemption.*": "preemption for a PodGroup",
    "TestPodGroupPreemptionStatus|TestWorkloadAwarePreemptionInvocation": "preemption for a PodGroup",
    r"TestSchedulerZPages/\w+_structured_cbor_response": "feature gates but five: `CBORServingAndStorage` is alpha",
}
"""Why a case fails on purpose: the row of docs/differences.md, by a pattern of the case's name."""
_INTRODUCTION = """\
# kube-scheduler's own tests

`make upstream` runs the integration tests of kube-scheduler itself (`test/integration/scheduler` of `k8s.io/kubernetes`) with our
scheduler in place of the Go one, and with the Go one as the control. It writes this page with
`python -m tests.upstream --page`, from the results in `tests/upstream/results.json`. What ours does differently on purpose is in
[differences.md](differences.md); random cases are compared by `make conformance` ([versions.md](versions.md)).

The tests come from the Go module proxy and are compiled in a copy of the module in the cache, which a script of ours edits
(`tests/upstream/edits.py`): where a test runs the scheduler, ours is started as a process (`tests/upstream/bridge`), with the
configuration of the test, encoded by upstream's encoder, and `compatibility: upstream` or `safe`. API server, controllers and
the checks of the tests are upstream's. Three things differ: the test goes on when ours is ready; helpers that wait for the Go
scheduler's cache wait 0.3 s more; and a backoff of 0 s, which no configuration can say, is 1 s. Feature gates that ours can set
are passed on; in the others it is as the version that it behaves as. Plugins that a test registers in Go stay there: ours has
plugins of the same names and extension points, which ask the Go objects over loopback (`tests/upstream/foreign.py`).

Some tests run no loop: they try pods one by one, cause an event, and look which pods are in the queue. There ours tries the pods
itself, and its `/debug/queue` and its metrics say what came of the event. Its backoff is 1000 s then: a pod that the event moves waits
in the backoff queue, and counts as one to be tried again. A test that turns the Go scheduler's clock by a backoff has one of 8 s with ours.

Others run the loop and look where a pod waits: ours says it.

With both schedulers, subtests with the same feature gates share an API server, which is emptied between them and may take a minute to
start; and nobody looks for leaked goroutines at the end.

A case is a subtest, or a test that has none. A case that passes without having started ours says nothing of it, and is not judged.
"""
_REPEATING = """\
## Repeat it

`make upstream KUBERNETES=1.34` runs what is not recorded in `.upstream.json` yet, and `PACKAGES=filters,preemption/misc` and `MODE=safe` choose.
`python -m tests.upstream --help` has more: one test (`--test`), and what tests and scheduler print (`--logs`). It fails when ours fails a case
that the Go scheduler passes. It needs nothing but Go, which is installed where it is missing, and etcd, which is built.

Seconds on two cores before the first test runs, measured with 1.36 and 1.37: 3 for the copy of the module, 1439 to compile all packages with
an empty compiler's cache, at the lowest priority, and 30 to 80 per package on a busy machine where the cache has the rest.
"""


def table(results: Results, minor: str, packages: Sequence[str]) -> str:
    """A Markdown table of packages: cases that pass, of those that were judged."""
    rows = [("package", "tests run", *_SIDES.values(), "not judged")]
    rows.append(("---",) * len(rows[0]))
    totals: dict[Side, tuple[int, int]] = {}
    for package in packages:
        cells: list[str] = []
        left_out = 0
        for side in _SIDES:
            counts = results.counts(minor, package, side)
            cells.append(_cell(counts))
            if counts is not None:
                passed, judged = totals.get(side, (0, 0))
                totals[side] = passed + counts.passed, judged + counts.passed + len(counts.failed)
                left_out = max(left_out, counts.left_out)
        counted = (results.counts(minor, package, side) for side in _SIDES)
        ran = max((counts.tests for counts in counted if counts), default=0)
        rows.append((f"`{package}`", f"{ran} of {max(ran, results.known(minor, package))}", *cells, str(left_out)))
    sums = (f"{totals[side][0]} of {totals[side][1]}" if side in totals else NOT_RUN for side in _SIDES)
    rows.append(("all", "", *sums, ""))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write() -> None:
    """Write docs/conformance.md."""
    PAGE.write_text(text(Results(RECORDED)))


def text(results: Results) -> str:
    """The page."""
    parts = [_INTRODUCTION]
    for minor in results.minors():
        packages = results.packages(minor)
        parts.append(f"## {RELEASES[minor].version}\n\nRecorded on {results.recorded(minor)}.\n")
        parts.append(table(results, minor, packages) + "\n")
        parts.append(_costs(results, minor, packages))
        parts.append(_reasons(results, minor, packages))
        parts.append(_failures(results, minor))
    return "\n".join([*(part for part in parts if part), _REPEATING])


def _cell(counts: Counts | None) -> str:
    if counts is None:
        return NOT_RUN
    judged = counts.passed + len(counts.failed)
    return f"{counts.passed} of {judged}" if judged else "–"


def _costs(results: Results, minor: str, packages: Sequence[str]) -> str:
    seconds = dict.fromkeys(Side, 0.0)
    for package in packages:
        for side in Side:
            counts = results.counts(minor, package, side)
            seconds[side] += counts.seconds if counts else 0.0
    costs = ", ".join(f"{_SIDES[side]} {seconds[side]:.0f} s" for side in Side if seconds[side])
    return f"Seconds on two busy cores, a test after the other: {costs}.\n"


def _reasons(results: Results, minor: str, packages: Sequence[str]) -> str:
    lines: dict[str, None] = {}
    unrunnable = list(rows(minor))
    for package in sorted({*packages, *(package for package, _, _ in unrunnable)}):
        for name, test, why in unrunnable:
            if name == package:
                lines[f"| `{package}` | {'all' if test == 'Test.*' else f'`{test}`'} | {why} |"] = None
        for side in (Side.UPSTREAM, Side.SAFE):
            counts = results.counts(minor, package, side)
            for reason in counts.reasons if counts else ():
                test, _, why = reason.partition(": ")
                lines[f"| `{package}` | `{test}` | {why} |"] = None
    return "\n".join(["Not run, or not judged:", "", "| package | test | why |", "|---|---|---|", *lines, ""])


def _failures(results: Results, minor: str) -> str:
    sides: dict[tuple[str, str], list[str]] = {}
    for package, case, side in results.failures(minor):
        sides.setdefault((package, case), []).append(_SIDES[side])
    if not sides:
        return ""
    lines = [
        f"| `{package}` | `{case}` | {'; '.join(failing)} | {_explanation(case)} |"
        for (package, case), failing in sides.items()
    ]
    return "\n".join(["Failures:", "", "| package | case | fails with | why |", "|---|---|---|---|", *lines, ""])


def _explanation(case: str) -> str:
    return next((why for pattern, why in _EXPLAINED.items() if re.fullmatch(pattern, case)), "not explained yet")
