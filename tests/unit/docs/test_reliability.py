"""docs/reliability.md claims nothing that no test or recorded run stands for."""

from __future__ import annotations

import re

import pytest

from tests.faults import matrix
from tests.faults.scenarios import SCENARIOS


def test_the_matrix_has_all_61_faults_in_order() -> None:
    assert [row.number for row in matrix.MATRIX] == list(range(1, 62))


@pytest.mark.parametrize("test", sorted({test for row in matrix.MATRIX for test in row.tests}))
def test_every_test_that_is_named_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"def {name}\(", (matrix.ROOT / file).read_text()), test


def test_every_recorded_scenario_exists_and_the_table_shows_what_was_recorded() -> None:
    known = {(each.number, each.name) for each in SCENARIOS}
    for row in matrix.results():
        assert row["number"] == 0 or (row["number"], row["name"]) in known, row["name"]
    page = matrix.PAGE.read_text()
    assert page == matrix.rendered(page), "rewrite it: python -m tests.faults.matrix"


def test_a_fault_that_nothing_injects_is_not_run() -> None:
    rows = [line for line in matrix.table([]).splitlines() if line.startswith("| 8 |")]
    assert rows == ["| 8 | Binding applied, answer lost | counts as bound; I1 I2 I3 | not run | not run | - |"]
