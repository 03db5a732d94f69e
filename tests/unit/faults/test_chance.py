"""What the random runs rest on: a seed plays the same again, a difference is seen, a recorded run is left out, and a
figure that grows has a slope."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.faults.__main__ import recorded
from tests.faults.kills import Arrival, Plan, compare, plan
from tests.faults.mixes import FAULTS, chosen_faults
from tests.faults.soak import slope, slopes

PODS = [Arrival("a", "1"), Arrival("g", "1", members=2, least=2)]


def _ends(singly: bool, undisturbed: str, killed: str) -> list[str]:
    nodes = [dict(zip(("a", "g-0", "g-1"), ends.split(), strict=True)) for ends in (undisturbed, killed)]
    bare = [{pod: node.strip("-") for pod, node in each.items()} for each in nodes]
    return [violation.invariant for violation in compare(Plan(singly, False, [], PODS, []), *bare)]


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_draws_the_same_again(seed: int) -> None:
    assert chosen_faults(seed) == chosen_faults(seed)
    assert plan(seed) == plan(seed)


def test_every_fault_is_drawn() -> None:
    assert {name for seed in range(200) for name in chosen_faults(seed)} == set(FAULTS)


def test_what_a_plan_asks_for_fits_wherever_its_pods_go() -> None:
    for seed in range(200):
        drawn = plan(seed)
        millicores = sum(int(each.cpu.rstrip("m")) * max(1, each.members) for each in drawn.arrivals if each.fits)
        halves = [sum(map(int, drawn.nodes[half::2])) * 1000 for half in (0, 1)]
        assert millicores <= 0.6 * min(halves)


@pytest.mark.parametrize(
    ("singly", "killed", "broken"),
    [
        (True, "n1 n1 n2", []),
        (True, "n1 n2 n1", []),
        (True, "n2 n1 n2", ["compare"]),
        (True, "n1 n1 n1", ["compare"]),
        (False, "n2 n1 n1", []),
        (False, "- n1 n2", ["compare"]),
        (False, "n1 n1 -", ["compare"]),
    ],
    ids=["the same", "members swapped", "another node", "a gang elsewhere", "together, elsewhere", "waits", "in part"],
)
def test_ends_are_compared_in_what_must_be_equal(singly: bool, killed: str, broken: list[str]) -> None:
    assert _ends(singly, "n1 n1 n2", killed) == broken


def test_what_was_recorded_is_left_out_and_a_line_that_was_cut_is_not(tmp_path: Path) -> None:
    file = tmp_path / "results"
    rows = [
        {"name": "mix etcd hangs, pods are deleted", "kind": "ours", "seed": 7},
        {"name": "zombie-leader", "kind": "real", "seed": 1},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"name": "mix pods')
    assert recorded(file) == {("mix", "ours", 7), ("zombie-leader", "real", 1)}
    assert recorded(tmp_path / "absent") == set()


def _samples(growth: float) -> list[dict[str, float]]:
    draw = random.Random(1)
    return [
        {"pods": 250.0 * number, "seconds": number, "resident_bytes": 1e8 + growth * 250 * number + draw.gauss(0, 1e5)}
        for number in range(1, 101)
    ]


def test_a_figure_that_grows_has_a_slope_beyond_its_margin() -> None:
    leak = slopes(_samples(100.0))["resident_bytes"]
    assert leak.grows
    assert leak.per_thousand == pytest.approx(100_000, rel=0.1)
    assert not slopes(_samples(0.0))["resident_bytes"].grows
    assert slopes(_samples(100.0)[:5]) == {}


def test_samples_that_follow_each_other_make_a_slope_less_certain() -> None:
    draw = random.Random(2)
    pods = [float(number) for number in range(200)]
    walk = [0.0]
    for _ in pods[1:]:
        walk.append(0.95 * walk[-1] + draw.gauss(0, 1))
    shuffled = draw.sample(walk, len(walk))
    assert slope(pods, walk).margin > 2 * slope(pods, shuffled).margin
