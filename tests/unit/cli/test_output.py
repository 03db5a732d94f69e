"""Tables and text on a terminal: as wide as it is, and no wider; in a file or pipe, lines stay whole."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from secondary_scheduler.cli import output
from secondary_scheduler.cli.output import aligned, fitted, text_width
from tests.support.simulating import Bench, node, pod

ROWS = [
    ["POD", "NODE", "MESSAGE"],
    ["shop/web-7d9f-abcde", "node-1", "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) had untolerated taints."],
    ["shop/api", "-", ""],
]


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int | None) -> None:
    monkeypatch.setattr(output, "terminal_columns", lambda: columns)


def test_a_table_in_a_pipe_has_a_line_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, None)
    assert len(list(aligned(ROWS))) == 3


def test_a_table_that_fits_is_the_same_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, None)
    whole = list(aligned(ROWS))
    on_terminal(monkeypatch, 200)
    assert list(aligned(ROWS)) == whole


def test_the_widest_column_is_wrapped_and_the_others_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, 64)
    lines = list(aligned(ROWS))
    assert lines == [
        "POD                  NODE    MESSAGE",
        "shop/web-7d9f-abcde  node-1  0/3 nodes are available: 2",
        "                             Insufficient cpu, 1 node(s) had",
        "                             untolerated taints.",
        "shop/api             -",
    ]


@given(
    st.lists(st.lists(st.text("ab c-", max_size=60), min_size=3, max_size=3), min_size=1, max_size=5),
    st.integers(46, 120),
)
def test_no_table_is_wider_than_its_terminal_and_nothing_is_lost(table: list[list[str]], columns: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        on_terminal(monkeypatch, columns)
        lines = list(aligned(table))
    assert all(len(line) <= columns for line in lines)
    letters = sorted("".join("".join(row) for row in table).replace(" ", ""))
    assert sorted("".join(lines).replace(" ", "")) == letters


LOADS = [
    ["NODE", "CPU", "CPU REQUESTED", "BY SCHEDULER"],
    ["sim-001", "90%", "3.5 of 4 (88%)", "secondary-scheduler 3, default-scheduler 2"],
]
NAMED = "; -o wide or a wider terminal shows all columns."


@pytest.mark.parametrize(
    ("columns", "shown", "left_out"),
    [
        (76, LOADS[0], None),
        (75, LOADS[0][:3], "BY SCHEDULER"),
        (32, LOADS[0][:3], "BY SCHEDULER"),
        (31, LOADS[0][:2], "BY SCHEDULER, CPU REQUESTED"),
    ],
)
def test_a_spare_column_is_whole_or_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, columns: int, shown: list[str], left_out: str | None
) -> None:
    on_terminal(monkeypatch, columns)
    heading, row, *note = aligned(LOADS, ("BY SCHEDULER", "CPU REQUESTED"))
    assert re.split(" {2,}", heading) == shown
    assert re.split(" {2,}", row) == LOADS[1][: len(shown)]
    assert " ".join(note) == ("" if left_out is None else f"Left out: {left_out}{NAMED}")


def test_a_whole_table_is_as_wide_as_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, 30)
    lines = list(aligned(LOADS, ("BY SCHEDULER",), whole=True))
    on_terminal(monkeypatch, None)
    assert lines == list(aligned(LOADS, ("BY SCHEDULER",)))
    assert lines[1].endswith("secondary-scheduler 3, default-scheduler 2")


def test_words_stay_whole_while_another_column_can_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, 60)
    rejections = [["12 nodes", "NodeResourcesFit", "Insufficient cpu, Insufficient memory", "sim-001, sim-002, …"]]
    words = {word for line in aligned(rejections) for word in line.split()}
    assert words == {word for cell in rejections[0] for word in cell.split()}


def test_long_lines_are_wrapped_with_their_indentation(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, 30)
    text = "  " + "a word " * 10
    lines = list(fitted([text, "short"]))
    assert lines == [
        *textwrap.wrap(text.strip(), 30, initial_indent="  ", subsequent_indent="    "),
        "short",
    ]
    on_terminal(monkeypatch, None)
    assert list(fitted([text])) == [text]


def test_text_is_as_wide_as_the_terminal_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in ((None, 110), (200, 110), (80, 76), (5, 12)):
        on_terminal(monkeypatch, columns)
        assert text_width(110, 4) == width


def test_a_command_fits_the_terminal_that_it_writes_to(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    items = [node("n1", cpu="1"), node("n2", cpu="1"), pod("too-large", cpu="64")]
    snapshot = bench.write("snapshot.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "secondary_scheduler.cli", "simulate", "--config", str(bench.config)]
    environment = {**os.environ, "COLUMNS": "50"}
    subprocess.run([*command, "--snapshot", str(snapshot)], stdout=terminal, check=True, timeout=60, env=environment)
    os.close(terminal)
    with os.fdopen(controller, "rb", buffering=0) as screen:
        lines = screen.read(65536).decode().splitlines()
    assert len(lines) > 2
    assert all(len(line) <= 50 for line in lines), lines
    assert "Insufficient" in " ".join(lines)
