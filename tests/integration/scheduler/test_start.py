"""From the start to the first bindings against a real API server, /livez asked all the while."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.integration]

MAX_MILLISECONDS = 1000
"""A kubelet's own patience; the benchmark at full size has the target, on a quiet machine."""
MAX_PROCESSOR_SECONDS = 3.0
"""Until the first pod is placed: three times what docs/sizing.md has, as a busy machine's processors do less."""


@pytest.mark.slow
def test_probes_are_answered_in_time_while_a_backlog_is_drained() -> None:
    command = [sys.executable, "-m", "benchmarks", "start", "--json", "--only", "ours", "--rounds", "1"]
    sizes = ["--nodes", "100", "--pods", "500", "--drain", "1000"]
    done = subprocess.run([*command, *sizes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ours = json.loads(done.stdout)["ours"]
    assert 0 < ours["seconds"]["median"] < 60
    assert 0 < ours["cpu"]["median"] < MAX_PROCESSOR_SECONDS
    assert 0 < ours["livez_p99"]["max"] < MAX_MILLISECONDS
