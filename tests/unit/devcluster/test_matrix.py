"""What `make matrix` runs; the runs themselves need control planes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from devcluster import releases
from tools import matrix

ROOT = Path(__file__).resolve().parents[3]


class Runs:
    """Stands in for subprocess: each command ends with 0, but those that a test names."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, str]] = []
        self.failing: set[tuple[str, str]] = set()
        self.unbuildable: set[str] = set()
        self.mismatches: dict[str, int] = {}
        self.commit = ""

    def __call__(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if command[0] == "git":
            return subprocess.CompletedProcess(command, 0, f"{self.commit}\n")
        environment = options.get("env")
        if not isinstance(environment, dict):
            return subprocess.CompletedProcess(command, int(command[-1] in self.unbuildable), "")
        minor = environment[releases.VARIABLE]
        part = next(name for name, arguments in matrix.PARTS.items() if arguments == command[1 : 1 + len(arguments)])
        self.parts.append((minor, part))
        differing = self.mismatches.get(minor, 0)
        output = (
            f"{command[command.index('--cases') + 1]} cases, 7 pods, {differing} mismatches" if part == "cases" else ""
        )
        failed = (minor, part) in self.failing or (part == "cases" and differing > 0)
        return subprocess.CompletedProcess(command, int(failed), output)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    stand_in = Runs()
    monkeypatch.setattr(matrix.subprocess, "run", stand_in)
    return stand_in


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The rows of the table, by minor."""
    _, _, table = capsys.readouterr().out.partition("\nminor ")
    return {line.split()[0]: line for line in table.splitlines() if line.startswith("1.")}


def test_every_part_names_tests_that_exist() -> None:
    paths = [ROOT / argument for part in matrix.PARTS.values() for argument in part if argument.startswith("tests/")]
    assert paths
    assert [path for path in paths if not path.exists()] == []


def test_every_minor_gets_every_part_on_its_own_control_plane(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main([]) == 0
    expected = [(minor, part) for minor in releases.CONTROL_PLANES for part in matrix.PARTS]
    # A kube-scheduler alone is asked on its neighbour's API server.
    assert runs.parts == [("1.29", "cases"), *expected, ("1.38", "cases")]
    table = lines(capsys)
    assert list(table) == ["1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37", "1.38"]
    assert table["1.36"].count("passed") == len(matrix.PARTS)
    assert "cannot be built: the Go module proxy lacks" in table["1.31"]


def test_minors_are_chosen_and_one_failure_fails_the_run(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    runs.failing.add(("1.36", "race"))
    runs.unbuildable.add("1.33")
    assert matrix.main(["1.33", "1.35", "1.36", "--cases", "7"]) == 1
    table = lines(capsys)
    assert table["1.33"].split(maxsplit=1)[1] == "its build failed"
    assert "FAILED" not in table["1.35"]
    assert table["1.36"].count("FAILED") == 1
    assert "passed 7 of 7" in table["1.36"]
    assert matrix.main(["1.37", "1.37.0"]) == 0


def test_a_difference_that_is_not_listed_fails_the_run_on_every_minor(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    for minor in ("1.30", "1.36"):
        runs.mismatches = {minor: 12}
        assert matrix.main([minor]) == 1
        assert "FAILED 12 in 100" in lines(capsys)[minor]


def test_the_table_says_when_and_of_which_commit(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    runs.commit = "0123abc"
    matrix.main(["1.36"])
    assert re.search(r"^commit 0123abc, \d{4}-\d\d-\d\d$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("minor", "why"), [("1.31", "cannot be built: the Go module proxy lacks"), ("1.39", "is not in the table")]
)
def test_a_minor_that_cannot_be_had_is_refused_in_one_line(
    runs: Runs, capsys: pytest.CaptureFixture[str], minor: str, why: str
) -> None:
    assert matrix.main([minor]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"matrix: Kubernetes {minor} {why}")
    assert runs.parts == []
