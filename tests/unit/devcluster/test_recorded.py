"""What the demo shows of a recorded cluster while the real one is built."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from devcluster.demo import recorded
from devcluster.errors import ServiceError

ROOT = Path(recorded.__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def screen() -> str:
    text = io.StringIO()
    recorded.show(Console(file=text, width=140), ROOT)
    return text.getvalue()


def pods(screen: str, temperature: str) -> tuple[int, int]:
    """Of the nodes of a temperature: pods placed by load, and by requests."""
    row = re.search(rf"all \d+ {temperature}\s+{temperature}\s+(\d+)\s+(\d+)", screen)
    assert row, screen
    return int(row[1]), int(row[2])


def test_every_recorded_pod_is_placed_and_the_hot_nodes_are_spared_by_load_only(screen: str) -> None:
    by_load, by_requests = zip(*(pods(screen, temperature) for temperature in ("hot", "warm", "cold")), strict=True)
    assert sum(by_load) == sum(by_requests) == 60
    assert by_load[0] == 0
    assert by_requests[0] > 0


def test_the_command_that_it_names_works(screen: str) -> None:
    command = next(line.strip() for line in screen.splitlines() if "simulate" in line)
    program, *arguments = shlex.split(command)
    assert program == ".venv/bin/secondary-scheduler"
    done = subprocess.run(
        [sys.executable, "-m", "secondary_scheduler.cli", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("demo/") == 60


def test_a_failure_of_simulate_is_reported_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.yaml").write_text("kind: Nonsense\n")
    monkeypatch.setattr(recorded, "BY_LOAD", tmp_path / "wrong.yaml")
    with pytest.raises(ServiceError, match=r"simulate on .*cluster\.json failed: .*wrong\.yaml"):
        recorded.show(Console(file=io.StringIO()), ROOT)
