"""The fault matrix on a real control plane: under each fault, the oracle finds no promise broken. And each fault that
is planted into a copy of the scheduler is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import kills, mixes
from tests.faults.mutants import MUTANTS
from tests.faults.plane import FaultPlane
from tests.faults.scenarios import SCENARIOS, Scenario, run

pytestmark = [pytest.mark.integration]

SEEDS = (1,)
QUICK_MUTANTS = {"binds-without-uid", "forgets-early"}
REGRESSIONS = (37, 53, 76, 86, 147, 214, 428, 795)
"""Seeds of mixes that were once misjudged: a leader lost its Lease on a busy machine, was told to end, or was killed.
The last two broke a promise: a gang's member lost its room; a new leader decided by a watch that had been cut."""

KILL_SEEDS = (6, 8)


def _slow_unless(quick: bool) -> tuple[pytest.MarkDecorator, ...]:
    return () if quick else (pytest.mark.slow,)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "played", [pytest.param(each, marks=_slow_unless(each.quick), id=each.name) for each in SCENARIOS]
)
async def test_no_promise_is_broken_under(played: Scenario, seed: int, plane: FaultPlane, tmp_path: Path) -> None:
    result = await run(played, plane, tmp_path, seed)
    assert not result.violations, "\n".join(map(str, result.violations))


@pytest.mark.parametrize("name", [pytest.param(name, marks=_slow_unless(name in QUICK_MUTANTS)) for name in MUTANTS])
async def test_the_oracle_finds_the_planted_fault(name: str, plane: FaultPlane, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    played = next(each for each in SCENARIOS if each.name == mutant.scenario)
    result = await run(played, plane, tmp_path, 1, name)
    assert mutant.invariant in {violation.invariant for violation in result.violations}, result.violations


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=_slow_unless(seed == 1)) for seed in (*range(1, 21), *REGRESSIONS)]
)
async def test_no_promise_is_broken_under_a_random_mix(seed: int, plane: FaultPlane, tmp_path: Path) -> None:
    async for result in mixes.play(plane, tmp_path, [seed]):
        assert not result.violations, f"{result.name}\n" + "\n".join(map(str, result.violations))


@pytest.mark.slow
async def test_a_killed_scheduler_ends_where_an_undisturbed_one_ends(plane: FaultPlane, tmp_path: Path) -> None:
    """One seed whose pods come one by one, one whose pods come together."""
    played = [result async for result in kills.play(plane, tmp_path, KILL_SEEDS)]
    assert {kills.plan(result.seed).singly for result in played} == {True, False}
    for result in played:
        assert not result.violations, f"{result.name}\n" + "\n".join(map(str, result.violations))
