"""A fixed sample of random worlds with gangs, played by the real scheduler-plugins 0.34.7 and by our daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.controlplane import ControlPlane
from tests.conformance.coscheduling import compare_all

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
SEED = 1_000


@pytest.mark.slow
@pytest.mark.parametrize(("compatibility", "worlds"), [("safe", 16), ("upstream", 96)])
async def test_the_same_pods_are_admitted_over_time(
    plane: ControlPlane, tmp_path: Path, compatibility: str, worlds: int
) -> None:
    """Safe mode is asked only about worlds in which nobody competes with a gang."""
    outcome = await compare_all(plane, tmp_path, SEED, worlds, compatibility, size=16)
    assert not outcome.mismatches, "\n".join(outcome.mismatches)
    assert outcome.new_words == set()
    assert outcome.cases == worlds
    assert outcome.bound > worlds
