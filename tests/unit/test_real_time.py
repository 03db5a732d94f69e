"""Tests marked `real_time` are not judged by what a machine does that stands still."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import ctypes, pytest

def standstill():
    ctypes.PyDLL(None).usleep(400_000)  # with the interpreter's lock: no thread of the process goes on

@pytest.mark.real_time
def test_fails_after_a_standstill():
    standstill()
    assert False

@pytest.mark.real_time
def test_fails():
    assert False

@pytest.mark.real_time
def test_passes_after_a_standstill():
    standstill()

def test_fails_without_the_marker():
    standstill()
    assert False
"""


@pytest.mark.real_time
def test_a_failure_counts_unless_the_machine_stood_still(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_call\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers = real_time\npythonpath = {Path(__file__).parents[2]}\n")
    (tmp_path / "test_these.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-rA", "-p", "no:cacheprovider", str(tmp_path)]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "FAILED test_these.py::test_fails " in out
    assert "FAILED test_these.py::test_fails_without_the_marker" in out
    assert "PASSED test_these.py::test_passes_after_a_standstill" in out
    assert "cannot be judged: the machine stood still for 0." in out
    assert "2 failed, 1 passed, 1 skipped" in out
