"""The benchmark of the scheduler beside a rebalancer: what pairs of turns say together."""

from __future__ import annotations

import pytest

from benchmarks import beside


def test_pairs_are_compared_turn_by_turn_and_summed_up_by_their_ratios() -> None:
    # A machine that becomes slower slows both turns of a pair.
    pairs = [beside.Pair(1000.0, 1010.0, 2), beside.Pair(2000.0, 2060.0, 1), beside.Pair(1500.0, 1515.0, 2)]
    assert [round(pair.ratio, 3) for pair in pairs] == [1.01, 1.03, 1.01]
    (line,) = beside.summary(pairs)
    assert "is +1.7 % (standard error 0.7, median +1.0 %), 3 pairs; without it, 1500 us" in line


def test_one_pair_says_nothing() -> None:
    assert beside.summary([beside.Pair(1000.0, 1100.0, 1)]) == []


def test_sizes_that_measure_nothing_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        beside.main(["--pairs", "1"])
    assert ended.value.code == 2
    assert "at least 2 pairs" in capsys.readouterr().err
