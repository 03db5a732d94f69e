"""The output of `python -m benchmarks program`, apart from the engine's times."""

from __future__ import annotations

import json

import pytest

from benchmarks import program


def test_imports_are_grouped_by_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--imports", "--rounds", "1", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["all, processor time"] > 50
    assert {"pulumi", "scheduler", "stacks", "components", "Python's own"} <= set(read)
    assert list(read.values()) == sorted(read.values(), reverse=True)
