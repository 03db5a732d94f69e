"""Sieve's views of the scheduler on a real control plane: it starts in the past, misses states, ends between writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import sieve
from tests.faults.plane import FaultPlane
from tests.faults.scenarios import Scenario, run

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.parametrize("view", [pytest.param(each, id=each.name) for each in sieve.SIEVE])
async def test_no_promise_is_broken_under(view: Scenario, plane: FaultPlane, tmp_path: Path) -> None:
    result = await run(view, plane, tmp_path, 1)
    assert not result.violations, "\n".join(map(str, result.violations))


async def test_an_end_between_any_two_writes_changes_nothing(plane: FaultPlane, tmp_path: Path) -> None:
    played = [result async for result in sieve.intermediate(plane, tmp_path)]
    assert len(played) > 10, "most writes were an end"
    for result in played:
        assert not result.violations, f"{result.name}\n" + "\n".join(map(str, result.violations))
