"""What a run of one of upstream's tests says, and how it is counted."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from devcluster.errors import BinaryError
from tests.upstream import edits, page, unrunnable
from tests.upstream.__main__ import main
from tests.upstream.results import NEVER_STARTED, Results
from tests.upstream.running import Run, Side, outcomes
from tests.upstream.unrunnable import is_unrunnable

_PRINTED = """\
=== RUN   TestSpread
    --- PASS: TestSpread/zones (1.00s)
    --- FAIL: TestSpread/hosts (2.00s)
    --- SKIP: TestSpread/racks (0.00s)
--- FAIL: TestSpread (3.00s)
"""


def test_subtests_are_the_cases_of_a_test() -> None:
    run = outcomes(_PRINTED, "TestSpread")
    assert (run.passed, run.failed, run.skipped) == (1, ["TestSpread/hosts"], 1)


def test_a_test_without_subtests_is_a_case() -> None:
    assert outcomes("--- PASS: TestTaint (0.5s)\n", "TestTaint").passed == 1


def test_a_test_that_fails_beside_its_subtests_has_failed() -> None:
    run = outcomes("    --- PASS: TestTaint/one (0.5s)\n--- FAIL: TestTaint (0.5s)\n", "TestTaint")
    assert (run.passed, run.failed) == (1, ["TestTaint"])


def test_a_run_that_ends_in_the_midst_has_failed() -> None:
    assert outcomes("=== RUN   TestTaint\npanic: test timed out\n", "TestTaint").failed == ["TestTaint"]


def test_a_case_that_never_starts_the_scheduler_is_not_judged(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    results.add("1.34", "bind", "TestBinder", Side.GO, Run(passed=4))
    results.add("1.34", "bind", "TestBinder", Side.SAFE, Run(passed=4))
    counts = results.counts("1.34", "bind", Side.SAFE)
    assert counts is not None
    assert (counts.passed, counts.left_out) == (0, 4)
    assert f"TestBinder: {NEVER_STARTED}" in counts.reasons


def test_a_scheduler_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    results.add("1.34", "taint", "TestTaint", Side.SAFE, Run(failed=["TestTaint"], troubles=["it ended"]))
    assert list(results.failures("1.34")) == [("taint", "TestTaint", Side.SAFE)]


def test_subtests_that_only_the_control_ran_are_left_out(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    results.add("1.34", "taint", "TestTaint", Side.GO, Run(passed=5))
    results.add("1.34", "taint", "TestTaint", Side.SAFE, Run(passed=3, started=3))
    counts = results.counts("1.34", "taint", Side.SAFE)
    assert counts is not None
    assert (counts.passed, counts.left_out) == (3, 2)


def test_results_are_read_again_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    Results(file).add("1.34", "taint", "TestTaint", Side.GO, Run(passed=5))
    assert Results(file).has("1.34", "taint", "TestTaint", Side.GO)
    assert not Results(file).has("1.34", "taint", "TestTaint", Side.SAFE)


def test_the_table_counts_what_was_judged(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    results.add("1.34", "taint", "TestTaint", Side.GO, Run(passed=5))
    results.add("1.34", "taint", "TestTaint", Side.SAFE, Run(passed=3, failed=["TestTaint/x"], started=3))
    results.know("1.34", "taint", ["TestTaint", "TestOther"])
    assert "| `taint` | 1 of 2 | 5 of 5 | not run | 3 of 4 | 1 |" in page.table(results, "1.34", ["taint"])


def test_the_loop_of_the_go_scheduler_is_replaced(tmp_path: Path) -> None:
    # A source like upstream's, as far as the pattern goes.
    edit = next(edit for edit in edits.EDITS if "ScheduleOne" in edit.pattern)
    file = tmp_path / edit.files
    file.parent.mkdir(parents=True)
    file.write_text("\tgo wait.Until(ctx, sched.ScheduleOne, 0)\n")
    changed = edits.replaced(tmp_path, [edit])
    assert list(changed.values()) == ["\tgo sched.schedule(ctx, func() { wait.Until(ctx, sched.ScheduleOne, 0) })\n"]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param("\tgo sched.Run(tCtx)\n", id="1.34"),
        pytest.param("\tgo func() {\n\t\tsched.Run(tCtx)\n\t\tclose(done)\n\t}()\n", id="1.37"),
    ],
)
def test_a_test_waits_until_the_scheduler_is_ready(tmp_path: Path, run: str) -> None:
    file = tmp_path / "test/integration/util/util.go"
    file.parent.mkdir(parents=True)
    file.write_text(f"{run}\n\treturn sched\n")
    waiting = [edit for edit in edits.EDITS if "AwaitReady" in edit.replacement]
    changed = edits.replaced(tmp_path, waiting)
    assert list(changed.values()) == [f"{run}\tsched.AwaitReady()\n\n\treturn sched\n"]


def test_a_minor_leaves_out_what_it_has_beside_those_before() -> None:
    assert is_unrunnable("1.37", "bind", "TestDefaultBinder")
    assert is_unrunnable("1.37", "podgroup", "TestCPGQueueing")
    assert not is_unrunnable("1.36", "podgroup", "TestCPGQueueing")
    assert is_unrunnable("1.36", "queueing/former", "TestCoreResourceEnqueueWithoutQueueingHints")
    assert not is_unrunnable("1.37", "queueing/former", "TestCoreResourceEnqueueWithoutQueueingHints")
    assert not is_unrunnable("1.37", "podgroup", "TestPodGroupScheduling")


def test_a_source_that_has_changed_is_named(tmp_path: Path) -> None:
    edit = next(edit for edit in edits.EDITS if "ScheduleOne" in edit.pattern)
    file = tmp_path / edit.files
    file.parent.mkdir(parents=True)
    file.write_text("\tsched.loop(ctx)\n")
    with pytest.raises(BinaryError, match="ScheduleOne"):
        edits.replaced(tmp_path, [edit])


def test_a_test_with_some_unrunnable_subtests_is_run_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = ("TestQueue/Fit/.*_gate", "TestQueue/Ports", "TestOther/zones", "TestGo")
    table = tuple(unrunnable.Unrunnable("queue", pattern, "a reason") for pattern in patterns)
    monkeypatch.setattr(unrunnable, "UNRUNNABLE", table)
    assert not unrunnable.is_unrunnable("1.34", "queue", "TestQueue")
    assert unrunnable.is_unrunnable("1.34", "queue", "TestGo")
    skipped = unrunnable.skipped_subtests("1.34", "queue", "TestQueue")
    assert skipped == "^(TestQueue)$/^(Fit)$/^(.*_gate)$|^(TestQueue)$/^(Ports)$"
    assert unrunnable.skipped_subtests("1.34", "queue", "TestSpread") == ""


def test_a_sample_of_what_is_not_built_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert main(["--packages", "filters,scoring", "--built", "--record", str(tmp_path / "results.json")]) == 0
    assert "not run: the tests of filters,scoring are not built" in "".join(capfd.readouterr())


def test_the_committed_page_shows_what_is_recorded() -> None:
    assert page.PAGE.read_text() == page.text(), "run python -m tests.upstream --page"
