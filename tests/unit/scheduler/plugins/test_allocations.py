"""The allocator in the situations of upstream's own tables: what the Go package answered, which is recorded.

`tests/conformance/test_dra.py` asks it again.
"""

import pytest

from tests.conformance.dra import agrees, ours_allocates
from tests.unit.scheduler.plugins.allocations import BUGS_BEFORE_1_38, BUGS_OF_1_36, CASES, recorded

ANSWERS = recorded()


@pytest.mark.parametrize("title", sorted(CASES.keys() - BUGS_OF_1_36 - BUGS_BEFORE_1_38))
def test_devices_are_allocated_as_by_the_go_package(title):
    ours, theirs = ours_allocates(CASES[title]), ANSWERS[title]
    assert agrees(ours, theirs), (ours, theirs)


@pytest.mark.parametrize(
    ("minor", "title"),
    [(37, title) for title in sorted(CASES.keys() - BUGS_BEFORE_1_38)] + [(38, title) for title in CASES],
)
def test_devices_are_allocated_as_by_the_package_of_a_newer_version(minor, title):
    ours, theirs = ours_allocates(CASES[title], minor), recorded(minor)[title]
    assert agrees(ours, theirs), (ours, theirs)


def test_each_situation_has_an_answer_and_most_kinds_of_answers_occur():
    assert ANSWERS.keys() == CASES.keys()
    assert len(CASES) > 200
    assert sum("error" in answer for answer in ANSWERS.values()) > 20
    assert sum(bool(answer.get("allocations")) for answer in ANSWERS.values()) > 100
