"""A fixed sample of random cases for the small plugins, asked of the real scheduler-plugins 0.34.7 and of ours."""

from __future__ import annotations

import os

import pytest

from tests.conformance import smallplugins, smallplugins_queue
from tests.conformance.controlplane import ControlPlane
from tests.conformance.runner import Runner
from tests.conformance.schedulerplugins import install_crds
from tests.conformance.smallplugins_running import OursSmall, small_oracle

CASES = int(os.environ.get("CONFORMANCE_CASES", "40"))
QUEUES = int(os.environ.get("CONFORMANCE_QUEUES", "1"))
SEED = 70_000
_SECONDS = float(os.environ.get("CONFORMANCE_SECONDS", "30"))
_LEAST = min(CASES, 20)

pytestmark = pytest.mark.integration


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_scores_and_verdicts_are_the_real_ones(plane: ControlPlane) -> None:
    profiles = list(smallplugins.PROFILES)
    cases = (smallplugins.generate(SEED + number, profiles[number % len(profiles)]) for number in range(CASES))
    async with small_oracle(plane) as oracle:
        summary = await Runner(oracle, OursSmall()).run(cases, seconds=_SECONDS, least=_LEAST)
    report = "\n\n".join([*summary.mismatches[:5], *summary.refused[:5], summary.text()])
    print(report)
    assert not summary.mismatches, report
    assert not summary.refused, report
    assert summary.cases >= _LEAST, report
    assert set(summary.scored) == smallplugins.PLUGINS


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plugin", smallplugins_queue.PLUGINS)
async def test_a_full_queue_is_taken_in_the_real_order(plane: ControlPlane, plugin: str) -> None:
    await install_crds(plane)
    for number in range(QUEUES):
        differing = await smallplugins_queue.compare(plane, plugin, SEED + number)
        assert differing.agrees, differing.text()
        assert len(set(differing.real)) > 10
