"""Waves: bounded and in parallel, none after a failure, all of them ended when interrupted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from secondary_scheduler.cli.errors import ExitCode, Interrupted
from secondary_scheduler.cli.fleet.project import FleetStack
from secondary_scheduler.cli.fleet.results import StackOutcome, StackResult, exit_code
from secondary_scheduler.cli.fleet.work import run_waves


def stacks(*names: str, wave: str = "rest") -> list[FleetStack]:
    return [FleetStack(name, Path(name), wave) for name in names]


def result(stack: FleetStack, outcome: StackOutcome = StackOutcome.DONE) -> StackResult:
    return StackResult(stack.name, stack.wave, stack.cluster, outcome, seconds=0.1)


WAVES = [("canary", stacks("a", "b", wave="canary")), ("rest", stacks("c", "d"))]


def outcomes(results: list[StackResult]) -> dict[str, str]:
    return {result.stack: str(result.outcome) for result in results}


def test_no_more_run_at_a_time_than_allowed_and_a_wave_waits_for_the_one_before() -> None:
    running: set[str] = set()
    most = 0
    order: list[str] = []
    lock = threading.Lock()

    def work(stack: FleetStack) -> StackResult:
        nonlocal most
        with lock:
            running.add(stack.name)
            most = max(most, len(running))
            if stack.wave == "rest":
                assert not running & {"a", "b", "e"}
        time.sleep(0.02)
        with lock:
            running.discard(stack.name)
            order.append(stack.name)
        return result(stack)

    waves = [("canary", stacks("a", "b", "e", wave="canary")), ("rest", stacks("c", "d"))]
    results = run_waves(waves, work, parallel=2, stop_on_failure=True, stopping=threading.Event())
    assert most == 2
    assert set(order[:3]) == {"a", "b", "e"}
    assert [result.stack for result in results] == ["a", "b", "e", "c", "d"]
    assert set(outcomes(results).values()) == {"done"}


def test_after_a_failure_the_wave_goes_to_its_end_and_later_ones_are_skipped() -> None:
    def work(stack: FleetStack) -> StackResult:
        return result(stack, StackOutcome.FAILED if stack.name == "a" else StackOutcome.DONE)

    results = run_waves(WAVES, work, parallel=1, stop_on_failure=True, stopping=threading.Event())
    assert outcomes(results) == {"a": "failed", "b": "done", "c": "skipped", "d": "skipped"}
    assert results[2].reason == "not started, since a failed"
    assert results[2].seconds == 0
    assert exit_code(results, previewed=False) == ExitCode.ERROR


def test_where_nothing_is_changed_every_stack_is_looked_at() -> None:
    def work(stack: FleetStack) -> StackResult:
        return result(stack, StackOutcome.FAILED if stack.name == "a" else StackOutcome.UNCHANGED)

    results = run_waves(WAVES, work, parallel=4, stop_on_failure=False, stopping=threading.Event())
    assert outcomes(results) == {"a": "failed", "b": "unchanged", "c": "unchanged", "d": "unchanged"}


def test_what_goes_wrong_unexpectedly_is_the_failure_of_one_stack() -> None:
    def work(stack: FleetStack) -> StackResult:
        if stack.name == "a":
            raise ValueError("odd\nthing")
        return result(stack)

    results = run_waves(WAVES[:1], work, parallel=2, stop_on_failure=True, stopping=threading.Event())
    assert outcomes(results) == {"a": "failed", "b": "done"}
    assert results[0].reason == "ValueError: odd thing"


@pytest.fixture
def interruptible() -> Iterator[None]:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_cancels_what_runs_and_starts_nothing_more() -> None:
    stopping = threading.Event()
    reported: list[str] = []

    def work(stack: FleetStack) -> StackResult:
        if stack.name == "a":
            return result(stack)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        assert stopping.wait(10)
        return result(stack, StackOutcome.CANCELLED)

    results = run_waves(
        [("canary", stacks("a", "b", "c", wave="canary")), ("rest", stacks("d"))],
        work,
        parallel=1,
        stop_on_failure=True,
        stopping=stopping,
        on_result=lambda result: reported.append(result.stack),
    )
    assert outcomes(results) == {"a": "done", "b": "cancelled", "c": "cancelled", "d": "cancelled"}
    assert results[2].reason == "cancelled before it was started"
    assert set(reported) >= {"a", "b"}
    assert exit_code(results, previewed=False) == ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("ended", "previewed", "code"),
    [
        ([StackOutcome.UNCHANGED], True, ExitCode.OK),
        ([StackOutcome.UNCHANGED, StackOutcome.CHANGES], True, ExitCode.DIFFERENCES),
        ([StackOutcome.FAILED, StackOutcome.CHANGES], True, ExitCode.ERROR),
        ([StackOutcome.DONE, StackOutcome.UNCHANGED], False, ExitCode.OK),
        ([StackOutcome.DONE, StackOutcome.SKIPPED], False, ExitCode.ERROR),
    ],
)
def test_exit_codes(ended: list[StackOutcome], previewed: bool, code: ExitCode) -> None:
    results = [result(stack, outcome) for stack, outcome in zip(stacks("a", "b"), ended, strict=False)]
    assert exit_code(results, previewed=previewed) == code
