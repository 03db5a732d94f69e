"""The collector keeps the last good reading, and knows how old it is."""

from __future__ import annotations

import pytest

from scheduler.framework import LoadReading, NodeLoad
from scheduler.load import LoadCollector, LoadError
from tests.support.clock import Clock
from tests.unit.scheduler.load.scripted import ScriptedSource


def reading(measured_at: float) -> LoadReading:
    return LoadReading({"n1": NodeLoad(cpu_average=10, measured_at=measured_at)}, window_end=measured_at + 1)


def collector(clock: Clock, *script: LoadReading | LoadError) -> tuple[LoadCollector, list[LoadReading]]:
    readings: list[LoadReading] = []
    source = ScriptedSource(*script)
    return LoadCollector(
        source, refresh_seconds=30, max_age_seconds=60, on_reading=readings.append, clock=clock
    ), readings


def test_before_the_first_read_nothing_is_fresh() -> None:
    status = collector(Clock(1000))[0].status()
    assert not status.fresh
    assert status.message == "not read yet"


def test_after_a_failure_the_last_reading_counts_until_it_is_stale() -> None:
    clock = Clock(1000)
    watched, readings = collector(clock, reading(995), LoadError("down"), LoadError("down"))
    watched.read_once()
    assert watched.status().fresh
    assert watched.status().age_seconds == 5

    clock.now = 1030
    watched.read_once()
    assert watched.status().fresh
    # The failure shows before the samples are too old.
    assert (watched.status().consecutive_failures, watched.status().message) == (1, "down")

    clock.now = 1056
    watched.read_once()
    status = watched.status()
    assert (status.fresh, status.message, status.consecutive_failures) == (False, "down", 2)
    assert len(readings) == 1


def test_old_samples_from_a_source_that_answers_are_stale() -> None:
    watched, _ = collector(Clock(1000), reading(900))
    watched.read_once()
    assert not watched.status().fresh
    assert "older than 60 s" in watched.status().message


def test_samples_of_a_source_whose_clock_is_a_little_ahead_become_stale_too() -> None:
    clock = Clock(1000)
    watched, _ = collector(clock, reading(1060))
    watched.read_once()
    assert (watched.status().fresh, watched.status().age_seconds) == (True, 0)
    clock.now = 1061
    assert not watched.status().fresh


def test_samples_of_the_future_are_not_fresh_and_the_status_says_by_how_much() -> None:
    clock = Clock(1000)
    watched, _ = collector(clock, reading(5000))
    watched.read_once()
    status = watched.status()
    assert (status.fresh, status.message) == (
        False,
        "Fake source: its samples are 4000 s ahead of this machine's clock",
    )


def test_one_sample_of_the_future_does_not_hide_how_old_the_others_are() -> None:
    loads = {"n1": NodeLoad(cpu_average=1, measured_at=930), "n2": NodeLoad(cpu_average=1, measured_at=2.8e9)}
    watched, _ = collector(Clock(1000), LoadReading(loads, 1000))
    watched.read_once()
    status = watched.status()
    assert (status.fresh, status.age_seconds) == (False, 70)
    assert "older than 60 s" in status.message


def test_an_empty_answer_says_that_the_series_are_missing() -> None:
    watched, readings = collector(Clock(1000), LoadReading({}, 1000, problems=("has no series",)))
    watched.read_once()
    assert not watched.status().fresh
    assert watched.status().message == "Fake source: answers, but has no series"
    assert readings[0].loads == {}


def test_recovery_clears_the_message() -> None:
    watched, _ = collector(Clock(1000), LoadError("down"), reading(999))
    watched.read_once()
    assert watched.status().message == "down"
    watched.read_once()
    assert (watched.status().message, watched.status().consecutive_failures) == ("", 0)


def test_the_thread_reads_and_stops() -> None:
    watched, readings = collector(Clock(1000), *[reading(999)] * 3)
    watched.start()
    watched.stop()
    assert 0 < len(readings) <= 3


@pytest.mark.parametrize("measured", [float("nan")])
def test_without_sample_times_the_window_end_counts(measured: float) -> None:
    only_values = LoadReading({"n1": NodeLoad(cpu_average=10, measured_at=measured)}, window_end=990)
    watched, _ = collector(Clock(1000), only_values)
    watched.read_once()
    assert watched.status().age_seconds == 10
