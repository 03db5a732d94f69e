"""Ending an engine: asked first, asked again, killed with all that it started only then."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from secondary_scheduler.cli.fleet.process import ProcessResult, StopTimeouts, run
from tests.support.waiting import eventually

# Shells, since they are up at once however busy the machine is.
POLITE = "trap 'echo cancelled; exit 3' INT; while :; do sleep 0.05; done"
STUBBORN = "set -m; trap '' INT; sleep 60 & echo $!; while :; do sleep 1; done"  # the child has a group of its own


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """A shell cannot trap a signal that was ignored when it started, as SIGINT is where tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ran(
    code: str, *, seconds: float = 30, stopping: threading.Event | None = None, patience: StopTimeouts | None = None
) -> ProcessResult:
    return run(
        ["bash", "-c", code],
        directory="/",
        environment=os.environ,
        deadline=time.monotonic() + seconds,
        stopping=stopping or threading.Event(),
        patience=patience,
    )


def test_output_and_exit_code_are_those_of_the_command() -> None:
    ending = ran("echo out; echo err >&2; exit 7")
    assert (ending.code, ending.stdout, ending.stderr) == (7, ["out"], ["err"])
    assert not ending.interrupted


def test_when_its_time_is_up_it_is_asked_to_cancel_and_may_do_so() -> None:
    ending = ran(POLITE, seconds=0.5)
    assert ending.timed_out
    assert ending.interrupted
    assert (ending.code, ending.stdout) == (3, ["cancelled"])


def test_when_the_fleet_is_stopped_it_is_asked_to_cancel() -> None:
    stopping = threading.Event()
    threading.Timer(0.5, stopping.set).start()
    ending = ran(POLITE, stopping=stopping)
    assert ending.interrupted
    assert not ending.timed_out
    assert ending.code == 3


def test_one_that_does_not_listen_is_killed_with_what_it_started() -> None:
    ending = ran(STUBBORN, seconds=1, patience=StopTimeouts(cancel=0.2, terminate=0.2))
    assert ending.code == -9
    child = Path(f"/proc/{ending.stdout[0]}/stat")
    eventually(
        lambda: not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z",
        "the child has ended",
    )


def test_a_ctrl_c_at_the_terminal_does_not_reach_it() -> None:
    assert ran("ps -o sid= -p $$ | grep -qw $$ && echo alone").stdout == ["alone"]


def test_what_cannot_be_started_is_an_error_of_the_system() -> None:
    with pytest.raises(FileNotFoundError):
        run(["/nowhere/pulumi"], directory="/", environment={}, deadline=0, stopping=threading.Event())
