"""The report of a self-test: what it says, and that nothing of a cluster becomes markup."""

from __future__ import annotations

import msgspec
import pytest

from secondary_scheduler.cli.selftest.report import Outcome, SelfTestReport, StepResult, markdown, page

HOSTILE = "<img src=x onerror=alert(1)> | `a` [b](c)\x1b[31m\u202e"


def report(outcome: Outcome = "passed", seen: str = "on node-1", left: tuple[str, ...] = ()) -> SelfTestReport:
    return SelfTestReport(
        run="a1b2c3",
        server="https://cluster.example",
        kubernetes="v1.34.4",
        nodes=3,
        version="0.2.0",
        instances="processes on this machine",
        begun="2026-11-29T09:00:00Z",
        seconds=88.0,
        steps=(StepResult("start", "two instances start", outcome, (seen,), 1.25),),
        left=left,
    )


def test_what_others_wrote_is_text_in_both_forms() -> None:
    html, text = page(report(seen=HOSTILE)), "\n".join(markdown(report(seen=HOSTILE)))
    for form in (html, text):
        assert "\x1b" not in form
        assert "\u202e" not in form
    assert "<img" not in html
    assert "\\<img" in text
    (row,) = (line for line in text.splitlines() if line.startswith("| start"))
    assert row.replace("\\|", "").count("|") == 6


def test_the_page_is_one_file_without_a_script() -> None:
    html = page(report())
    assert "<script" not in html
    assert "src=" not in html
    assert "http-equiv" not in html


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        (report("passed"), False),
        (report("skipped"), False),
        (report("failed"), True),
        (report("passed", left=("Namespace x: not gone",)), True),
    ],
)
def test_a_failed_step_or_something_left_fails_the_run(changed: SelfTestReport, failed: bool) -> None:
    assert changed.has_failed is failed


def test_the_digest_is_of_all_that_the_report_says() -> None:
    assert report().digest == report().digest
    assert report().digest != report(seen="on node-2").digest
    assert msgspec.json.decode(msgspec.json.encode(report()))["kind"] == "SelfTestReport"
    assert report().digest in page(report())
    assert any(report().digest in line for line in markdown(report()))
