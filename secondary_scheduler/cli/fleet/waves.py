"""Waves of stacks, each in parallel; none starts after a failure in the one before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from secondary_scheduler.cli.errors import Interrupted
from secondary_scheduler.cli.fleet.events import one_line
from secondary_scheduler.cli.fleet.project import Stack
from secondary_scheduler.cli.fleet.results import StackOutcome, StackResult

_LISTEN_SECONDS = 0.5


def run_waves(
    waves: Sequence[tuple[str, Sequence[Stack]]],
    work: Callable[[Stack], StackResult],
    *,
    parallel: int,
    stop_on_failure: bool,
    stopping: threading.Event,
    on_result: Callable[[StackResult], None] = lambda _: None,
) -> list[StackResult]:
    """Do `work` for every stack, at most `parallel` at a time, and return a result for each, in the order of the waves.

    Where `stop_on_failure` is false, all stacks form one wave and none waits for another. `on_result` is called in this
    thread with each result as it arrives. On an interrupt, `stopping` is set, `work` must come to an end, and stacks
    that were not started are reported as cancelled.
    """
    steps = waves if stop_on_failure else [("", [stack for _, stacks in waves for stack in stacks])]
    results: dict[str, StackResult] = {}
    failed: list[str] = []
    with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="stack") as pool:
        for _, stacks in steps:
            if stopping.is_set():
                results |= {stack.name: _not_started(stack) for stack in stacks}
            elif failed:
                results |= {stack.name: _skipped(stack, failed) for stack in stacks}
            else:
                _run_wave(pool, stacks, work, stopping, results, on_result)
                failed = [stack.name for stack in stacks if results[stack.name].outcome is StackOutcome.FAILED]
    return [results[stack.name] for _, stacks in waves for stack in stacks]


def _run_wave(
    pool: ThreadPoolExecutor,
    stacks: Sequence[Stack],
    work: Callable[[Stack], StackResult],
    stopping: threading.Event,
    results: dict[str, StackResult],
    on_result: Callable[[StackResult], None],
) -> None:
    futures: list[Future[StackResult]] = []
    try:
        for stack in stacks:
            futures.append(pool.submit(_run_stack, stack, work, stopping))
        pending = set(futures)
        while pending:
            # A signal that comes just before the thread goes to sleep is only heard when it wakes.
            done, pending = wait(pending, timeout=_LISTEN_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                results[result.stack] = result
                on_result(result)
    except Interrupted:
        stopping.set()
        for future in futures:
            result = future.result()
            if results.setdefault(result.stack, result) is result:
                on_result(result)
        for stack in stacks:
            results.setdefault(stack.name, _not_started(stack))


def _run_stack(stack: Stack, work: Callable[[Stack], StackResult], stopping: threading.Event) -> StackResult:
    if stopping.is_set():
        return _not_started(stack)
    try:
        return work(stack)
    except Exception as error:
        # An unexpected error of one stack must not end the others.
        reason = one_line(f"{type(error).__name__}: {error}")
        return StackResult(stack.name, stack.wave, stack.cluster, StackOutcome.FAILED, reason=reason)


def _not_started(stack: Stack) -> StackResult:
    reason = "cancelled before it was started"
    return StackResult(stack.name, stack.wave, stack.cluster, StackOutcome.CANCELLED, reason=reason)


def _skipped(stack: Stack, failed: Sequence[str]) -> StackResult:
    names = failed[0] if len(failed) == 1 else f"{failed[0]} and {len(failed) - 1} more"
    reason = f"not started, since {names} failed"
    return StackResult(stack.name, stack.wave, stack.cluster, StackOutcome.SKIPPED, reason=reason)
