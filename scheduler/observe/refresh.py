"""Gauges are computed on the loop that owns what they show, when another thread is about to read them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import structlog

PATIENCE_SECONDS = 2.0
"""A loop that is busy for longer shows what it showed before: a scrape that waits on it would say even less."""
T = TypeVar("T")
log = structlog.get_logger(component="serving")


class GaugeRefresh:
    """Brings gauges up to date, so that they cost nothing between scrapes.

    Args:
        loop: where `refresh` runs.
        refresh: sets the gauges.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, refresh: Callable[[], None]) -> None:
        self._loop = loop
        self._refresh = refresh
        self._pending: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Have the gauges set, and wait for it, two seconds at most. Called on the serving thread's loop.

        All that wait at once wait for the same refresh: many scrapes cost the loop no more than one.
        """
        if self._pending is None or self._pending.done():
            done: Future[None] = Future()
            try:
                self._loop.call_soon_threadsafe(self._run, done)
            except RuntimeError:
                # The loop is closed: the process is about to end.
                return
            self._pending = asyncio.wrap_future(done)
        await asyncio.wait([self._pending], timeout=PATIENCE_SECONDS)

    async def ask(self, question: Callable[[], T]) -> T:
        """Return what a function returns on the loop; it must be quick there.

        Raises:
            TimeoutError: the loop is busy for longer than two seconds, or the process is about to end.
        """
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(question())
            except Exception as error:
                answer.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(run)
        except RuntimeError as error:
            raise TimeoutError("the process is about to end") from error
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.wrap_future(answer)

    def _run(self, done: Future[None]) -> None:
        try:
            self._refresh()
        except Exception:
            # A mistake of ours must not hide all other metrics.
            log.exception("gauges could not be brought up to date")
        finally:
            done.set_result(None)
