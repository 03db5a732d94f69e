"""How the commands end: exit codes, and what is a fault of ours."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from devcluster.errors import BinaryError, SpecError
from devcluster.progress import ProgressReporter
from tests.upstream.command import carry_out, judge
from tests.upstream.results import Results
from tests.upstream.running import Run, Side


@pytest.fixture(autouse=True)
def _no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(KeyboardInterrupt(), 130, id="interrupted"),
        pytest.param(SpecError("no package x"), 2, id="wrong usage"),
        pytest.param(BinaryError("no Go"), 1, id="nothing was built"),
    ],
)
def test_what_keeps_a_command_from_its_end_is_its_exit_code(
    error: BaseException, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def work(_report: ProgressReporter, _logs: Path) -> None:
        raise error

    assert carry_out(work, None) == code
    assert str(error) in capfd.readouterr().err


def test_logs_are_kept_where_a_directory_is_named(tmp_path: Path) -> None:
    def work(_report: ProgressReporter, logs: Path) -> None:
        (logs / "test.log").touch()

    assert carry_out(work, tmp_path) == 0
    assert (tmp_path / "test.log").exists()


def test_a_case_that_only_ours_fails_is_a_fault(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    results = Results(tmp_path / "results.json")
    results.add("1.34", "taint", "TestTaint", Side.GO, Run(passed=1))
    results.add("1.34", "taint", "TestTaint", Side.SAFE, Run(failed=["TestTaint"], started=1))
    assert judge(results, "1.34", ["taint"], [Side.SAFE]) == 1
    assert "taint TestTaint: fails with ours (safe)" in capfd.readouterr().out
    assert judge(results, "1.34", ["taint"], [Side.UPSTREAM]) == 0
    assert judge(results, "1.34", ["scoring"], [Side.SAFE]) == 0


def test_a_case_that_the_control_fails_too_is_none(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    results.add("1.34", "taint", "TestTaint", Side.GO, Run(failed=["TestTaint"]))
    results.add("1.34", "taint", "TestTaint", Side.SAFE, Run(failed=["TestTaint"], started=1))
    assert judge(results, "1.34", ["taint"], [Side.SAFE]) == 0
