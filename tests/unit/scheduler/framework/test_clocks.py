"""The type checker refuses to mix the two clocks; at run time both are plain numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

from scheduler.framework import MonotonicSeconds, WallSeconds, clocks

pytestmark = pytest.mark.slow
MIXED = {
    "a comparison": "moment < now",
    "a difference": "moment - now",
    "a deadline by the wrong clock": "deadline: MonotonicSeconds = now",
    "a number as a moment": "deadline: MonotonicSeconds = 5.0",
    "a moment as a time": "time: WallSeconds = moment",
    "the wrong clock": "Clocks(wall=both.monotonic, monotonic=both.wall)",
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says of all of them, each on a line of its own."""
    directory = tmp_path_factory.mktemp("mypy")
    (directory / "clocks.py").write_text(Path(clocks.__file__).read_text())
    lines = ["from clocks import Clocks, MonotonicSeconds, WallSeconds"]
    for number, statement in enumerate(["moment + 5 < moment", *MIXED.values()]):
        parameters = "moment: MonotonicSeconds, now: WallSeconds, both: Clocks"
        lines.append(f"def case_{number}({parameters}) -> None: {statement}")
    file = directory / "mixed.py"
    file.write_text("\n".join(lines) + "\n")
    cache = f"--cache-dir={directory / 'cache'}"
    report, errors, _ = api.run(["--strict", "--config-file=", cache, "--no-error-summary", str(file)])
    assert not errors
    return report.splitlines()


def test_waiting_by_the_monotonic_clock_is_allowed(complaints: list[str]) -> None:
    assert not [line for line in complaints if "mixed.py:2:" in line]


@pytest.mark.parametrize("mix", MIXED)
def test_the_clocks_cannot_be_mixed(complaints: list[str], mix: str) -> None:
    number = list(MIXED).index(mix) + 3
    assert [line for line in complaints if f"mixed.py:{number}: error" in line]


def test_both_are_numbers_at_run_time() -> None:
    assert MonotonicSeconds(2.5) - MonotonicSeconds(1) == 1.5
    assert WallSeconds(2.5) == 2.5
