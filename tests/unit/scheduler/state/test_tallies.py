"""Tallies: counts per row and per domain, and no room kept for what is no longer counted."""

import sys

import numpy as np

from scheduler.state.tallies import SumPool, Tally

ROWS = 1000
ZONES = np.arange(ROWS, dtype=np.intp) % 3


def by_zone(tally: Tally) -> list[int]:
    return tally.by_domain("zone", ZONES, 3, None, 1).tolist()


def test_a_tally_that_counts_no_pod_any_more_keeps_no_memory():
    tally = Tally(SumPool())
    for row in range(ROWS):
        tally.add(row, 1, 1)
    assert by_zone(tally) == [334, 333, 333, 0]
    needed = sys.getsizeof(tally.rows)
    for row in range(ROWS):
        tally.add(row, -1, 1)
    assert sys.getsizeof(tally.rows) < needed / 100
    assert by_zone(tally) == [0, 0, 0, 0]
    tally.add(4, 2, 1)
    assert by_zone(tally) == [0, 2, 0, 0]


def test_tallies_that_come_and_go_do_not_drop_the_sums_of_the_one_that_stays():
    pool = SumPool()
    lasting = Tally(pool)
    lasting.add(0, 1, 1)
    kept = lasting.by_domain("zone", ZONES, 3, None, 1)
    for _ in range(3000):
        passing = Tally(pool)
        passing.add(1, 1, 1)
        assert by_zone(passing) == [0, 1, 0, 0]
        passing.add(1, -1, 1)
    lasting.add(0, 1, 1)
    assert kept.tolist() == [2, 0, 0, 0], "the same live array"
