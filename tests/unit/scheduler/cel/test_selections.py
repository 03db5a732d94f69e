"""Selectors in the situations of upstream's own table: what the Go package answered, which is recorded."""

import pytest

from tests.conformance.dra import ours_of, same_selection
from tests.unit.scheduler.cel.selections import CASES, recorded_selectors

ANSWERS = recorded_selectors()


@pytest.mark.parametrize("title", CASES)
def test_a_selector_has_the_go_packages_value(title):
    expression, driver, device = CASES[title]
    ours, theirs = ours_of(expression, device, driver), ANSWERS[title]
    assert same_selection(ours, theirs), (ours, theirs)


def test_each_situation_has_an_answer():
    assert ANSWERS.keys() == CASES.keys()
    assert len(CASES) > 50
