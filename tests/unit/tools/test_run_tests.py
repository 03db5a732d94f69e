"""`make test`'s parts: their order, what they print, and the exit code."""

import sys

import pytest

from tools import run_tests


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that print their names; `live` fails."""

    def saying(text: str, code: int = 0) -> list[str]:
        return [sys.executable, "-c", f"print('{text}'); raise SystemExit({code})"]

    commands = {
        "check": [saying("lint"), saying("types")],
        "unit": [saying("cases")],
        "live": [saying("binaries"), saying("servers", 3)],
        "bench-smoke": [saying("race")],
    }
    monkeypatch.setattr(run_tests, "PARTS", commands)


def test_every_part_runs_and_a_failed_one_fails_the_run(parts: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["check", "unit", "live", "bench-smoke"]) == 1
    printed = capfd.readouterr().out.splitlines()
    output = [line for line in printed if line and not line.startswith("===")]
    # `check` runs beside `unit`, and is shown after it, whole.
    assert output == ["cases", "lint", "types", "binaries", "servers", "race"]
    assert printed[-1] == "=== failed: live"


def test_a_check_that_fails_beside_the_unit_tests_is_seen(
    parts: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(run_tests.PARTS, "check", [["false"]])
    assert run_tests.main(["check", "unit"]) == 1
    assert "=== failed: check" in capfd.readouterr().out


def test_an_unknown_part_is_a_mistake_in_the_call(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["units"]) == 2
    assert capfd.readouterr().err.startswith("run_tests: no part named units; one of ")
