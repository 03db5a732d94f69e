"""What `make matrix` runs; the runs themselves need control planes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import releases
from tools import matrix

ROOT = Path(__file__).resolve().parents[3]


def test_every_part_names_tests_that_exist() -> None:
    paths = [ROOT / argument for part in matrix.PARTS.values() for argument in part if argument.startswith("tests/")]
    assert paths
    assert [path for path in paths if not path.exists()] == []


def test_every_minor_gets_every_part_on_its_own_control_plane_and_one_failure_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[tuple[str, str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        environment = options.get("env")
        if not isinstance(environment, dict):
            return subprocess.CompletedProcess(command, int("1.33" in command))
        minor = environment[releases.VARIABLE]
        runs.append((minor, command[-1]))
        return subprocess.CompletedProcess(command, int(minor == "1.36" and "benchmarks" in command))

    monkeypatch.setattr(matrix.subprocess, "run", run)
    assert matrix.main([]) == 1
    assert [minor for minor, _ in runs] == [
        minor for minor in releases.CONTROL_PLANES for _ in matrix.PARTS if minor != "1.33"
    ]
    table = capsys.readouterr().out
    assert "FAILED" in next(line for line in table.splitlines() if line.startswith("1.36"))
    assert "not built" in next(line for line in table.splitlines() if line.startswith("1.33"))
    assert matrix.main(["1.37"]) == 0


def test_a_minor_that_cannot_be_built_is_refused_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "tools/matrix.py", "1.31"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("matrix: Kubernetes 1.31 cannot be built")
    assert len(done.stderr.splitlines()) == 1
