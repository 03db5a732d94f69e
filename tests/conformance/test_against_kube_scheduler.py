"""A fixed sample of random cases, and every case that ever failed, asked of the real kube-scheduler and of ours."""

from __future__ import annotations

import os

import pytest

from tests.conformance import profiles
from tests.conformance.case import ERROR, Case
from tests.conformance.controlplane import ControlPlane
from tests.conformance.directed import DIRECTED
from tests.conformance.directed_plugins import PLUGIN_CASES, UNREADABLE
from tests.conformance.features import FEATURES, available
from tests.conformance.generator import choose, generate
from tests.conformance.oracle import oracle_of
from tests.conformance.ours import Ours
from tests.conformance.runner import Runner, Summary, regressions
from tests.support.selection import FULL

CASES = int(os.environ.get("CONFORMANCE_CASES", "400" if FULL else "120"))
SEED = 20_000
_SECONDS = 180.0 if FULL else 45.0
_LEAST = min(CASES, 50)

pytestmark = pytest.mark.integration


def _verdict(summary: Summary) -> str:
    return "\n\n".join([*summary.mismatches, *summary.refused, summary.text()])


async def test_cases_that_once_failed_agree(plane: ControlPlane) -> None:
    known = regressions()
    have = set(available(profiles.implemented()))
    cases = [case for case in known if set(case.features) <= have]
    async with oracle_of(plane) as oracle:
        summary = await Runner(oracle, Ours(kubernetes=plane.kubernetes)).run(cases)
    assert not summary.mismatches, _verdict(summary)
    assert summary.cases + len(summary.refused) == len(cases)


async def test_random_cases_agree(plane: ControlPlane) -> None:
    features = available(profiles.implemented())
    names = [variant.name for variant in profiles.variants()]
    chosen = [(seed, *choose(seed, features, names)) for seed in range(SEED, SEED + CASES)]
    async with oracle_of(plane) as oracle:
        summary = await Runner(oracle, Ours(kubernetes=plane.kubernetes)).run(
            (generate(seed, picked, profile) for seed, picked, profile in chosen), seconds=_SECONDS, least=_LEAST
        )
    print(summary.text())
    assert not summary.mismatches, _verdict(summary)
    assert not summary.refused, _verdict(summary)
    assert summary.cases >= _LEAST, _verdict(summary)
    # Fewer than these may leave a plugin without a word.
    assert not summary.coverage.missing() or summary.cases < 200, _verdict(summary)


async def test_directed_cases_agree(plane: ControlPlane) -> None:
    async with oracle_of(plane) as oracle:
        runner = Runner(oracle, Ours(kubernetes=plane.kubernetes))
        cases = DIRECTED | {
            name: Case(0, (), profile, tuple(objects), tuple(pods))
            for name, (objects, pods, profile) in PLUGIN_CASES.items()
        }
        differing = {name: reports for name, case in cases.items() if (reports := await runner.compare(case))}
    assert not differing, "\n\n".join(f"{name}:\n{report}" for name, reports in differing.items() for report in reports)
    assert not runner.summary.refused, _verdict(runner.summary)
    assert not runner.summary.coverage.missing(), _verdict(runner.summary)


async def test_a_preference_that_cannot_be_read_fails_the_pod(plane: ControlPlane) -> None:
    async with oracle_of(plane) as oracle:
        (refused,) = await oracle.ask(UNREADABLE)
    start = 'running PreScore plugin "NodeAffinity": '
    for answer in (refused.answer, Ours(kubernetes=plane.kubernetes).ask(refused.pod, refused.world)):
        assert (answer.outcome, answer.message[: len(start)]) == (ERROR, start)


async def test_log_says_what_users_read_on_the_pod(plane: ControlPlane) -> None:
    case = generate(7, ["scarce", "node-selector"])
    async with oracle_of(plane) as oracle:
        answers = await oracle.ask(case)
        conditions = await oracle.conditions(case)
    messages = {
        answered.pod["metadata"]["name"]: answered.answer.message for answered in answers if answered.answer.message
    }
    assert messages
    assert {name: message for name, message in conditions.items() if message} == messages


def test_every_feature_belongs_to_a_plugin_or_to_all() -> None:
    default = profiles.implemented() | set(profiles.missing())
    assert all(feature.needs <= default for feature in FEATURES.values())
