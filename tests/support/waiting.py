"""Waiting for conditions in tests: one patience for all, so that no test depends on how fast a machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_SECONDS = 120.0
"""Longest wait for a condition. It ends a test that hangs; it is no promise about the product's speed."""


def eventually(
    check: Callable[[], T],
    expectation: str = "",
    *,
    interval: float = 0.05,
    diagnosis: Callable[[], object] | None = None,
) -> T:
    """Return the first true result of a check.

    Args:
        check: called again and again; what it raises ends the wait.
        expectation: what the test waits for; it is part of the message when the wait fails.
        interval: seconds between two calls.
        diagnosis: called when the wait fails; its result is added to the message.

    Raises:
        AssertionError: no true result within `PATIENCE_SECONDS`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (result := check()):
        assert time.monotonic() < deadline, _failure(expectation, diagnosis)
        time.sleep(interval)
    return result


async def eventually_async(check: Callable[[], Awaitable[T]], expectation: str = "", *, interval: float = 0.05) -> T:
    """As `eventually`, for a check that must be awaited."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (result := await check()):
        assert time.monotonic() < deadline, _failure(expectation, None)
        await asyncio.sleep(interval)
    return result


async def eventually_on_loop(check: Callable[[], T], expectation: str = "", *, interval: float = 0.005) -> T:
    """As `eventually`, for a condition that a task of the same event loop brings about."""

    async def awaited() -> T:
        return check()

    return await eventually_async(awaited, expectation, interval=interval)


def _failure(expectation: str, diagnosis: Callable[[], object] | None) -> str:
    message = f"not within {PATIENCE_SECONDS:g} s: {expectation or 'the condition'}"
    return message if diagnosis is None else f"{message}; {diagnosis()}"
