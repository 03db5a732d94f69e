"""A fixed sample of random cases for the load-aware plugins, asked of the real scheduler-plugins 0.34.7 and of ours."""

from __future__ import annotations

import os
import time

import pytest

from tests.conformance import trimaran
from tests.conformance.controlplane import ControlPlane
from tests.conformance.oracle import oracle_of
from tests.conformance.runner import Runner
from tests.support.selection import FULL

CASES = int(os.environ.get("CONFORMANCE_CASES", "200" if FULL else "100"))
SEED = 50_000
_SECONDS = float(os.environ.get("CONFORMANCE_SECONDS", "75"))
_LEAST = min(CASES, 50)

pytestmark = pytest.mark.integration


# With an end in the future no pod is missing in the measurements; with one in the past every pod is.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(1_000_000, id="all pods measured", marks=pytest.mark.slow),
        pytest.param(-1_000, id="no pod measured yet"),
    ],
)
async def test_load_aware_scores_are_the_real_ones(plane: ControlPlane, end: int) -> None:
    watcher = trimaran.Watcher(trimaran.document(SEED + end, int(time.time()) + end))
    models = trimaran.power_models(SEED)
    try:
        with trimaran.scheduler_plugins_running(plane, watcher, models) as real:
            async with oracle_of(real) as oracle:
                runner = Runner(oracle, trimaran.OursWithLoad(watcher, models))
                cases = (trimaran.generate(SEED + end + number) for number in range(CASES))
                summary = await runner.run(cases, seconds=_SECONDS, least=_LEAST)
    finally:
        watcher.close()
    report = "\n\n".join([*summary.mismatches[:5], *summary.refused[:5], summary.text()])
    print(report)
    assert not summary.mismatches, report
    assert not summary.refused, report
    assert summary.cases >= _LEAST, report
    assert set(summary.scored) == {"TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "Peaks"}
