"""A fixed sample of random cases for NodeResourceTopologyMatch, asked of the real scheduler-plugins 0.34.7 and of
ours."""

from __future__ import annotations

import os

import pytest

from tests.conformance import numa
from tests.conformance.controlplane import ControlPlane
from tests.conformance.numa_running import OursWithZones, compare_reservations, numa_oracle
from tests.conformance.runner import Runner

CASES = int(os.environ.get("CONFORMANCE_CASES", "40"))
SEED = 90_000
_SECONDS = float(os.environ.get("CONFORMANCE_SECONDS", "30"))
_LEAST = min(CASES, 15)

pytestmark = pytest.mark.integration


@pytest.mark.timeout(1800)
async def test_zones_are_judged_as_the_real_plugin_judges_them(plane: ControlPlane) -> None:
    async with numa_oracle(plane) as oracle:
        runner = Runner(oracle, OursWithZones())
        cases = (numa.generate(SEED + number) for number in range(CASES))
        summary = await runner.run(cases, seconds=_SECONDS, least=_LEAST)
    report = "\n\n".join([*summary.mismatches[:5], *summary.refused[:5], summary.text()])
    print(report)
    assert not summary.mismatches, report
    assert not summary.refused, report
    assert summary.cases >= _LEAST, report
    assert summary.scored[numa.PLUGIN] > 0
    assert {reason for reason in summary.rejected if "align" in reason}


@pytest.mark.timeout(1800)
async def test_what_was_reserved_is_missing_for_both(plane: ControlPlane) -> None:
    summary = await compare_reservations(plane, SEED, CASES // 2, _SECONDS, least=CASES // 2)
    report = "\n\n".join([*summary.mismatches[:5], summary.text()])
    print(report)
    assert not summary.mismatches, report
    assert summary.cases == CASES // 2, report
    assert summary.rejected["no zone"] > 0, report
