"""The first lists of a start, without an API server."""

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.harness.contestants import OURS, ROOT
from benchmarks.lists import UNITS, measure, table, write_pages


def test_nodes_running_and_waiting_pods_of_all_pages_are_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.lists.PAGE", 20)
    write_pages(tmp_path, nodes=30, placed=25, waiting=40)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "loads.json",
        *(f"nodes-{number:03d}.json" for number in range(2)),
        *(f"pods-{number:03d}.json" for number in range(4)),
    ]
    figures = measure(ROOT, tmp_path)
    assert (figures["nodes"], figures["pods"], figures["loads"]) == (30, 65, 30)
    assert min(figures.values()) > 0


def test_a_checkout_is_compared_with_ours_in_the_same_round() -> None:
    def figures(ms: float) -> dict[str, float]:
        return {**dict.fromkeys(UNITS, 10.0), "ms": ms}

    rounds = [{OURS: figures(ours), "old": figures(2 * ours)} for ours in (100.0, 200.0, 400.0)]
    (line,) = [line for line in table(rounds) if line.startswith("old") and "for both lists" in line]
    assert re.sub(" +", " ", line) == "old 400 (200 to 800) ms for both lists; ours: 0.5 (0.5 to 0.5) of it"


def test_a_checkout_that_cannot_be_measured_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["lists", "--nodes", "1", "--placed", "0", "--waiting", "1", "--rounds", "1", "--before", str(tmp_path)])
        == 1
    )
    assert capsys.readouterr().err == f"benchmarks lists: {tmp_path}: no checkout of this project\n"
