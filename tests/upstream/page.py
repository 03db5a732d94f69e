# ruff: noqa: E501 -- the lines of the page are its own
"""The table of a run, and docs/conformance.md of what is recorded in the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from devcluster.releases import RELEASES
from tests.upstream.results import NOT_RUN, RECORDED, Counts, Results
from tests.upstream.running import CHECKOUT, Side
from tests.upstream.suites import suite_of
from tests.upstream.unrunnable import SPECS, rows

PAGE = CHECKOUT / "docs" / "conformance.md"
_SIDES: Mapping[Side, str] = {Side.GO: "Go", Side.UPSTREAM: "ours, `upstream`", Side.SAFE: "ours, `safe`"}
_NOMINATES = "an alpha gate of 1.34: ours nominates before a binding from 1.35 on"
_WITHOUT_HINTS = "emulates 1.33 without queueing hints, which cannot be turned off from 1.34 on"
_COMPARISONS = "most feature gates: `TaintTolerationComparisonOperators` is alpha"
_EXPLAINED: Mapping[str, str] = {
    r"Test_PutNominatedNodeNameInBindingCycle/NominatedNodeName_is_put_if_P\w+_will_run.*": _NOMINATES,
    r"TestNominatedNodeNameIsSetBeforePreBind\w+/NominatedNodeName_is_put_if_PreBindPlugin_will_run.*": (
        "nomination of a pod that waits for volumes or devices"
    ),
    r"TestPreEnqueuePluginEventsToRegister/\w+_without_event_registered_queueHint\(false\)": _WITHOUT_HINTS,
    r"TestTaint\w+/.*([GL]t_|Operators_enabled:_true).*": _COMPARISONS,
    "TestTaintTolerationGtLtIntegration": _COMPARISONS,
    r"Test(PodGroup|TopologyAware)Scheduling\w*/.*(preempt|workload-aware).*": "preemption for a PodGroup",
    r"TestPodGroupScheduling/.*TopologyAwareWorkloadScheduling_enabled:_true.*": "topology of PodGroups",
    "TestPodGroupSequentialQueueing/.*": "a PodGroup that does not fit",
    "TestPodGroupPreemptionStatus|TestWorkloadAwarePreemptionInvocation|TestPostFilterInvocationCount": (
        "preemption for a PodGroup"
    ),
    "TestCoschedulingPlugin/different_priority,_sequentially_pg1_meet_min_and_pg2_meet_min": "preemption for members",
    "TestLoadVariationRiskBalancingPlugin": "age of a value",
    "TestSyschedPlugin": "SySched: what shows that the kubelet has reported",
    ".* PodTopologySpread Preemption validates proper pods are preempted": "kwok ended the spec's pod, as with Go at times",
    r"TestSchedulerZPages/\w+_structured_cbor_response": "most feature gates: `CBORServingAndStorage` is alpha",
}
"""Why a case fails: the row of docs/differences.md, or what is at fault beside ours, by a pattern of its name."""
_INTRODUCTION = """\
# kube-scheduler's own tests

`make upstream` runs the integration tests of kube-scheduler itself (`test/integration/scheduler` of `k8s.io/kubernetes`) with our
scheduler in place of the Go one, and with the Go one as the control. It writes this page with
`python -m tests.upstream --page`, from the results in `tests/upstream/results.json`. [scheduler-plugins' own](#scheduler-plugins-0347)
run in the same way. What ours does differently on purpose is in [differences.md](differences.md); random cases are compared by `make conformance` ([versions.md](versions.md)).

The tests come from the Go module proxy and are compiled in a copy of the module in the cache, which a script of ours edits
(`tests/upstream/edits.py`): where a test runs the scheduler, ours is started as a process (`tests/upstream/bridge`), with the
configuration of the test, encoded by upstream's encoder, and `compatibility: upstream` or `safe`; two plugins whose work GangScheduling does by
itself (TopologyPlacementGenerator, PodGroupPodsCount) are taken out of it. API server, controllers and
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
_PLUGINS = """\
The integration tests of `sigs.k8s.io/scheduler-plugins` (`test/integration`), run in the same way, from `tests/upstream/schedulerplugins.json`:
its plugins are ours here, with the arguments that the test gives them, encoded by upstream's encoder. A profile has the plugins that
the test names and no more, where a file would add the defaults. etcd and API server, one of each for a test, are the local cluster's.
Tests that run no loop, but take pods from the queue themselves, get them in the order in which ours takes them: it is started, and
has ended by then.
"""
_SPECS = """\
## The e2e tests

`make upstream-e2e` runs the specs `[sig-scheduling]` of Kubernetes' e2e tests (`test/e2e`) on a local control plane with six simulated nodes in two
zones. The specs are not edited: a run of one starts kube-scheduler, or ours in its place, for the pods of `default-scheduler`. kwok plays the kubelets. A spec that
fails is tried once more, with either: kwok deletes by name, at times a pod that was created just after another of its name had gone.
"""
_REPEATING = """\
## Repeat it

`make upstream KUBERNETES=1.34` runs what is not recorded in `.upstream.json` yet, and `PACKAGES=filters,preemption/misc` and `MODE=safe` choose.
`python -m tests.upstream --help` has more: one test (`--test`), and what tests and scheduler print (`--logs`). It fails when ours fails a case
that the Go scheduler passes. It needs nothing but Go, which is installed where it is missing, and etcd, which is built.
`make upstream SUITE=scheduler-plugins` runs those of scheduler-plugins (with `KUBERNETES=1.35` those of its 0.35, which was not tried yet). It builds the
API server, too, and compiles the tests in a minute after that.

Seconds on two cores before the first test runs, measured with 1.36 and 1.37: 3 for the copy of the module, 1439 to compile all packages with
an empty compiler's cache, at the lowest priority, and 30 to 80 per package on a busy machine where the cache has the rest.
"""


def table(results: Results, minor: str, packages: Sequence[str]) -> str:
    """A Markdown table of packages: cases that pass, of those that were judged."""
    lines = [("package", "tests run", *_SIDES.values(), "not judged")]
    lines.append(("---",) * len(lines[0]))
    for package in packages:
        counted = (results.counts(minor, package, side) for side in _SIDES)
        ran = max((counts.tests for counts in counted if counts), default=0)
        of = f"{ran} of {max(ran, results.known(minor, package))}"
        lines.append((f"`{package}`", of, *_cells(results, minor, package)))
    lines.append(("all", "", *_sums(results, minor, packages), ""))
    return _markdown(lines)


def table_of_tests(results: Results, minor: str, packages: Sequence[str]) -> str:
    """As `table`, with a row for each test."""
    lines = [("test", *_SIDES.values(), "not judged")]
    lines.append(("---",) * len(lines[0]))
    for package in packages:
        for test in results.tests(minor, package):
            lines.append((f"`{test}`", *_cells(results, minor, package, test)))
    lines.append(("all", *_sums(results, minor, packages), ""))
    return _markdown(lines)


def _cells(results: Results, minor: str, package: str, test: str = "") -> tuple[str, ...]:
    counted = [results.counts(minor, package, side, test) for side in _SIDES]
    left_out = max((counts.left_out for counts in counted if counts), default=0)
    return (*map(_cell, counted), str(left_out))


def _sums(results: Results, minor: str, packages: Sequence[str]) -> Iterator[str]:
    for side in _SIDES:
        counted = [counts for package in packages if (counts := results.counts(minor, package, side))]
        passed = sum(counts.passed for counts in counted)
        judged = passed + sum(len(counts.failed) for counts in counted)
        yield f"{passed} of {judged}" if counted else NOT_RUN


def _markdown(lines: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write() -> None:
    """Write docs/conformance.md."""
    PAGE.write_text(text())


def text() -> str:
    """The page."""
    parts = [_INTRODUCTION]
    results = Results(RECORDED["kube-scheduler"])
    for minor in results.minors():
        parts.append(f"## {RELEASES[minor].version}\n\nRecorded on {results.recorded(minor)}.\n")
        packages = results.packages(minor)
        parts.append(table(results, minor, packages) + "\n")
        parts += _remarks(results, minor, packages, list(rows(minor)))
    results = Results(RECORDED["scheduler-plugins"])
    for minor in results.minors():
        packages = results.packages(minor)
        version = suite_of("scheduler-plugins", RELEASES[minor]).version
        parts.append(f"## scheduler-plugins {version}\n\n{_PLUGINS}\nRecorded on {results.recorded(minor)}.\n")
        parts.append(table_of_tests(results, minor, packages) + "\n")
        parts += _remarks(results, minor, packages, [])
    results = Results(RECORDED["e2e"])
    parts.append(_SPECS)
    for minor in results.minors():
        packages = results.packages(minor)
        parts.append(f"Those of {RELEASES[minor].version}, recorded on {results.recorded(minor)}:\n")
        parts.append(table(results, minor, packages) + "\n")
        left_out = [(package, spec, why) for package in packages for spec, why in SPECS.items()]
        parts += _remarks(results, minor, packages, left_out)
    return "\n".join([*(part for part in parts if part), _REPEATING])


def _remarks(
    results: Results, minor: str, packages: Sequence[str], unrunnable: Sequence[tuple[str, str, str]]
) -> Iterator[str]:
    """What stands below a table."""
    yield _costs(results, minor, packages)
    yield _reasons(results, minor, packages, unrunnable)
    yield _failures(results, minor)


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


def _reasons(results: Results, minor: str, packages: Sequence[str], unrunnable: Sequence[tuple[str, str, str]]) -> str:
    lines: dict[str, None] = {}
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
