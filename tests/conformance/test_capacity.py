"""A fixed sample of random cases for CapacityScheduling and PreemptionToleration, asked of the real scheduler-plugins
0.34.7 and of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.conformance import capacity
from tests.conformance.capacitycases import PROFILES, generate, lost_class, nominated
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.ours import Ours
from tests.conformance.runner import Runner
from tests.conformance.schedulerplugins import peer_version

CASES = int(os.environ.get("CONFORMANCE_CASES", "35"))
SEED = 70_000
_SECONDS = float(os.environ.get("CONFORMANCE_SECONDS", "15"))

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def real() -> Iterator[ControlPlane]:
    with control_plane_running() as running, capacity.real_scheduler_running(running) as plugins:
        yield plugins


def _ours(compatibility: str = "upstream") -> Ours:
    return Ours(capacity.configuration("", ours=True, compatibility=compatibility), peer_version())


async def _compare(real: ControlPlane, profile: str, cases: int, seconds: float, least: int) -> None:
    async with capacity.quota_oracle_of(real) as oracle:
        runner = Runner(oracle, _ours())
        chosen = (generate(SEED + number, profile) for number in range(cases))
        summary = await runner.run(chosen, seconds=seconds, least=least)
    report = "\n\n".join([*summary.mismatches[:5], *summary.refused[:5], summary.text()])
    print(report)
    assert not summary.mismatches, report
    assert not summary.refused, report
    assert summary.cases >= least, report
    assert summary.outcomes["of these preempting"] > 0, report


@pytest.mark.parametrize("profile", PROFILES)
async def test_verdicts_and_victims_are_the_real_ones(real: ControlPlane, profile: str) -> None:
    await _compare(real, profile, CASES, _SECONDS, min(CASES, 8))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("profile", PROFILES)
async def test_verdicts_and_victims_are_the_real_ones_in_many_cases(real: ControlPlane, profile: str) -> None:
    await _compare(real, profile, max(CASES, 300), 900, 100)


async def test_a_class_that_is_gone_fails_both(real: ControlPlane) -> None:
    async with capacity.quota_oracle_of(real) as oracle:
        case = lost_class(SEED)
        (answered,) = await oracle.ask(case)
        ours = _ours().ask(answered.pod, answered.world)
    assert 'priorityclass.scheduling.k8s.io "short-lived" not found' in answered.answer.message
    assert ours.message == answered.answer.message


@pytest.mark.parametrize(
    ("room", "message", "victims"),
    [
        pytest.param("3", "no corresponding pod there-0 in pods of node", (), id="taken away twice"),
        pytest.param("9", "is more than Max", ("default/there-0",), id="evicted in vain"),
    ],
)
async def test_upstreams_trouble_with_nominated_pods(
    real: ControlPlane, room: str, message: str, victims: tuple[str, ...]
) -> None:
    async with capacity.quota_oracle_of(real) as oracle:
        first, second = await oracle.ask(nominated(SEED, room), 0.2)
    assert first.answer.victims == ("default/there-1",)
    assert message in second.answer.message
    assert second.answer.victims == victims
    ours = _ours().ask(second.pod, second.world)
    assert (ours.message, ours.victims) == (second.answer.message, second.answer.victims)
    safe = _ours("safe").ask(second.pod, second.world)
    assert "is more than Max" in safe.message
    assert "global quota max exceeded" in safe.message
    assert safe.victims == ()
