"""What remembering decisions costs, without measuring it: intervals and reports."""

import os

from benchmarks.race.usage import processor_seconds
from benchmarks.remembering import interval, summary
from benchmarks.rememberinglive import report
from benchmarks.sidebyside import pod


def test_the_interval_is_students() -> None:
    mean, half = interval([1.0, 2.0, 3.0])
    assert (mean, round(half, 3)) == (2.0, round(4.30 / 3**0.5, 3))
    assert interval([5.0] * 12) == (5.0, 0.0)


def test_the_summary_gives_mean_interval_and_median() -> None:
    text = summary([1.00, 1.02, 1.10])
    assert "+4.0 %" in text
    assert "median +2.0 %" in text
    assert "3 pairs" in text


def test_the_report_of_live_pairs_has_microseconds_and_percent() -> None:
    text = report([{"without": 100.0 * number, "with": 102.0 * number} for number in (5, 6, 5.5)])
    assert text.startswith("550 us per pod without and 561 us with the history (medians); the difference is +11.0 us")
    assert "is +2.0 % (95 %: +2.0 to +2.0 %" in text


def test_processor_time_is_that_of_the_process_and_grows() -> None:
    before = processor_seconds(os.getpid())
    assert before > 0.0
    sum(range(100_000))
    assert before < processor_seconds(os.getpid()) < before + 60


def test_a_batch_has_pods_of_twenty_kinds_for_one_scheduler() -> None:
    batch = [pod("with", f"p-{index}", index) for index in range(40)]
    assert {each["spec"]["schedulerName"] for each in batch} == {"with"}
    kinds = {str(each["spec"]["containers"][0]["resources"]) for each in batch}
    assert len(kinds) == 20
