"""What ginkgo's report says of a spec."""

from __future__ import annotations

from typing import Any

import pytest

from tests.upstream.e2e import main, outcome

_SPEC = "SchedulerPredicates [Serial] validates that taints are respected"


def _report(state: str, kind: str = "It", text: str = "validates that taints are respected") -> dict[str, Any]:
    groups = ["[sig-scheduling] SchedulerPredicates [Serial]"] if kind == "It" else None
    return {"ContainerHierarchyTexts": groups, "LeafNodeType": kind, "LeafNodeText": text, "State": state}


def test_a_spec_is_found_among_those_that_were_not_chosen() -> None:
    reports = [_report("skipped", text="another"), _report("passed"), _report("passed", "ReportAfterSuite", "")]
    assert outcome(reports, _SPEC).passed == 1


@pytest.mark.parametrize("state", ["failed", "panicked", "timedout", "interrupted"])
def test_a_spec_that_does_not_pass_has_failed(state: str) -> None:
    assert outcome([_report(state)], _SPEC).failed == [_SPEC]


def test_a_spec_that_skips_itself_is_skipped() -> None:
    result = outcome([_report("skipped"), _report("passed", "SynchronizedBeforeSuite", "")], _SPEC)
    assert (result.passed, result.failed, result.skipped) == (0, [], 1)


def test_a_spec_that_a_failure_before_it_left_out_has_failed() -> None:
    assert outcome([_report("skipped"), _report("failed", "SynchronizedBeforeSuite", "")], _SPEC).failed == [_SPEC]


def test_a_run_without_a_word_of_the_spec_has_failed() -> None:
    assert outcome([], _SPEC).failed == [_SPEC]


def test_a_mode_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--mode", "go"])
    assert "'go' is not upstream, safe or upstream,safe" in capsys.readouterr().err
