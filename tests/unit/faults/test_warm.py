"""Forks of a warm process behave as processes that were started as commands, and end with their client."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.faults.warm import WarmStarts


async def test_a_fork_has_its_own_output_environment_and_exit_code(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with WarmStarts() as starts:
        version = await starts.start(["--version"], dict(os.environ), log)
        refused = await starts.start([f"--config={tmp_path}/absent"], dict(os.environ), log)
        assert [await version.wait(), await refused.wait()] == [0, 1]
        assert "absent" in log.read_text()


async def test_a_fork_that_is_killed_says_by_which_signal_and_all_end_with_the_client(tmp_path: Path) -> None:
    # A pipe that nobody writes to keeps them busy.
    os.mkfifo(tmp_path / "config")
    async with WarmStarts() as starts:
        killed, left = [
            await starts.start([f"--config={tmp_path}/config"], dict(os.environ), tmp_path / "log") for _ in range(2)
        ]
        killed.kill()
        assert await killed.wait() == -signal.SIGKILL
        assert left.returncode is None
    assert await left.wait() == -signal.SIGKILL
    with pytest.raises(ConnectionError):
        await starts.start([], {}, tmp_path / "log")


async def test_whoever_waits_for_a_fork_is_not_left_waiting_when_every_task_is_cancelled(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config")

    async def killing() -> None:
        async with WarmStarts() as starts:
            process = await starts.start([f"--config={tmp_path}/config"], dict(os.environ), tmp_path / "log")
            running.set()
            try:
                await asyncio.Event().wait()
            finally:
                process.kill()
                await process.wait()

    running = asyncio.Event()
    task = asyncio.create_task(killing())
    await running.wait()
    # As at the end of `asyncio.run` after an interrupt.
    for each in asyncio.all_tasks() - {asyncio.current_task()}:
        each.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)
