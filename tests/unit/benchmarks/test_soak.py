"""The slopes of a soak."""

from __future__ import annotations

import pytest

from benchmarks.soak import Slope, grows, slope


def test_a_figure_that_grows_by_one_a_minute_grows_by_sixty_an_hour() -> None:
    assert slope([100.0 + minute for minute in range(10)]) == (pytest.approx(60.0), pytest.approx(0.0, abs=1e-9))


def test_a_figure_that_only_varies_does_not_grow() -> None:
    varying = slope([100.0 + minute % 2 for minute in range(50)])
    assert abs(varying.per_hour) < varying.half
    assert not grows(varying, 0.0)


def test_growth_counts_when_it_is_more_than_nothing_and_more_than_noise() -> None:
    assert grows(Slope(20.0, 5.0), none=10.0)
    assert not grows(Slope(5.0, 1.0), none=10.0)
    assert not grows(Slope(20.0, 25.0), none=10.0)
