"""The snapshots that `python -m benchmarks plan` measures commands on."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import planning
from tests.support.simulating import run


def test_the_overloaded_snapshot_gives_the_rebalancer_something_to_do(tmp_path: Path) -> None:
    planning.write_files(tmp_path, 30, 60)
    done = run(
        *("rebalance", "plan", "--config", tmp_path / "load-aware.yaml"),
        *("--snapshot", tmp_path / "overloaded.json", "-o", "json"),
    )
    assert done.code == 3
    assert len(json.loads(done.out)["moves"]) == 1


def test_the_snapshot_with_pending_pods_is_placed_completely_by_both_profiles(tmp_path: Path) -> None:
    planning.write_files(tmp_path, 10, 20)
    for name in ("default", "TargetLoadPacking"):
        done = run(
            *("simulate", "--config", tmp_path / f"{name}.yaml", "--snapshot", tmp_path / "pending.json", "-o", "json")
        )
        assert done.code == 0, done.err
