"""A sample of random cases asked of the real kube-scheduler of other minors, and of ours behaving as it."""

from __future__ import annotations

import pytest

from devcluster.toolchain import binaries
from scheduler.catalog import DEFAULT_KUBERNETES, KUBERNETES_VERSIONS
from tests.conformance import profiles
from tests.conformance.controlplane import control_plane_running
from tests.conformance.features import available
from tests.conformance.generator import choose, generate
from tests.conformance.oracle import oracle_of
from tests.conformance.ours import Ours
from tests.conformance.runner import Runner

SEED, CASES, SECONDS = 40_000, 100, 90.0

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.parametrize("minor", [row.name for row in KUBERNETES_VERSIONS.values() if row != DEFAULT_KUBERNETES])
async def test_random_cases_agree_with_the_kube_scheduler_of(minor: str) -> None:
    if binaries.find(binaries.row("kube-scheduler", minor)) is None:
        pytest.skip(f"not built: python -m devcluster.toolchain {minor}")
    features = available(profiles.implemented())
    names = [variant.name for variant in profiles.variants()]
    chosen = [(seed, *choose(seed, features, names)) for seed in range(SEED, SEED + CASES)]
    with control_plane_running(minor) as control_plane:
        async with oracle_of(control_plane) as oracle:
            summary = await Runner(oracle, Ours(kubernetes=control_plane.kubernetes)).run(
                (generate(seed, picked, profile) for seed, picked, profile in chosen), seconds=SECONDS
            )
    assert not summary.mismatches, "\n\n".join([*summary.mismatches, summary.text()])
    assert not summary.refused, summary.text()
    assert summary.cases >= 20, summary.text()
