"""An event loop for a Pulumi program under mocks, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

_THREADS = 4


@contextmanager
def program_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Give the current event loop of a program; afterwards it is closed, and so are those of its threads.

    Pulumi's mocks make an event loop in every thread that has none, and nobody closes it. So each thread gets one here.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loops = [loop]

    def enter_thread() -> None:
        loops.append(asyncio.new_event_loop())
        asyncio.set_event_loop(loops[-1])

    loop.set_default_executor(ThreadPoolExecutor(_THREADS, initializer=enter_thread))
    try:
        yield loop
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        for opened in loops:
            opened.close()
        asyncio.set_event_loop(None)
