"""How long builds that are left will take."""

from __future__ import annotations

import pytest

from devcluster.toolchain.binaries import Estimate, about


def test_before_the_first_build_the_measured_times_count() -> None:
    assert Estimate([60, 180, 60]).left == 300


def test_a_machine_that_was_half_as_fast_so_far_takes_twice_as_long_for_the_rest() -> None:
    estimate = Estimate([60, 180, 60])
    estimate.finished(120)
    assert estimate.left == 480
    estimate.finished(180)
    assert estimate.left == pytest.approx(60 * 300 / 240)


def test_a_first_build_that_was_cached_does_not_promise_that_the_rest_takes_no_time() -> None:
    estimate = Estimate([60, 180])
    estimate.finished(0.1)
    assert estimate.left == 18


def test_a_build_that_runs_tells_how_fast_the_machine_is() -> None:
    estimate = Estimate([60, 180])
    assert estimate.left_during(0.5, 60) == 2 * (30 + 180)
    assert estimate.left_during(1.0, 120) == 360
    estimate.finished(60)
    assert estimate.left_during(0.5, 210) == pytest.approx(90 * 270 / 150)


def test_its_first_packages_do_not_tell_it() -> None:
    assert Estimate([100]).left_during(0.05, 60) == 95


def test_nothing_is_left_after_the_last_build() -> None:
    estimate = Estimate([60])
    estimate.finished(70)
    assert estimate.left == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "less than a minute"),
        (54, "less than a minute"),
        (55, "about 1 min"),
        (89, "about 1 min"),
        (260, "about 4 min"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert about(seconds) == words
