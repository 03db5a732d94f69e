"""What a terminal shows of steps that run."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from devcluster.progress import LiveReporter


@pytest.mark.parametrize("label", ["building kube-controller-manager 1.34.4 (3 of 8)", "a step [with brackets]"])
def test_a_terminal_of_80_columns_shows_how_far_the_longest_step_is_on_a_line_of_its_own(label: str) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, color_system=None, width=80)
    with LiveReporter(console) as live, live.step(label) as advance:
        advance(1042, 1610, "packages compiled, about 12 min left")
        deadline = time.monotonic() + 30
        while "packages compiled" not in text.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    lines = [
        line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())) if line.strip()
    ]
    running = next(number for number, line in enumerate(lines) if "packages compiled" in line)
    assert lines[running].strip() == "1042 of 1610 packages compiled, about 12 min left"
    assert label in lines[running - 1]
    assert label in lines[-1]
    assert "packages" not in lines[-1]
