"""I11: the same snapshot and seed give the same decisions, and the oracle sees when they do not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.oracle import same_decisions
from tests.support.simulating import Bench, node, pod


def _decisions(directory: Path, snapshot: int, seed: int) -> dict[str, str | None]:
    """What is decided for pods drawn by `snapshot` on nodes that are all alike, so that the seed breaks every tie."""
    draw = random.Random(snapshot)
    nodes = [node(f"n{number}") for number in range(20)]
    pods = [pod(f"p{number}", cpu=f"{draw.choice((100, 300, 900))}m") for number in range(30)]
    draw.shuffle(nodes)
    return Bench(directory).simulate(*nodes, *pods, arguments=("--seed", str(seed))).nodes


@pytest.mark.parametrize("snapshot", range(3))
def test_the_same_snapshot_and_seed_give_the_same_decisions(tmp_path: Path, snapshot: int) -> None:
    assert same_decisions([_decisions(tmp_path, snapshot, 7) for _ in range(2)]) == []


def test_a_scheduler_that_draws_its_own_seed_is_caught(tmp_path: Path) -> None:
    violations = same_decisions([_decisions(tmp_path, 0, seed) for seed in (7, 8)])
    assert {violation.invariant for violation in violations} == {"I11"}
