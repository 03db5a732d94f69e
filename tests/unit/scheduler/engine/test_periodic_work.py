"""Work that a plugin has repeated beside the scheduling loop."""

from __future__ import annotations

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from scheduler.engine import handle as handle_module
from scheduler.framework import GiveWay
from tests.support.faketime import wall_clock
from tests.unit.scheduler.engine.fakes import Engine, eventually


async def test_it_runs_at_once_and_again_so_many_seconds_after_each_end(engine: Engine) -> None:
    starts: list[float] = []
    began = wall_clock()

    async def work(give_way: GiveWay) -> None:
        starts.append(wall_clock() - began)
        await asyncio.sleep(2)

    engine.handle.run_every(10, work, "work")
    await eventually(lambda: len(starts) == 3, "the third time", 30)
    assert starts == pytest.approx([0, 12, 24], abs=0.1)


async def test_long_work_lets_others_run_only_when_its_turn_is_over(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = [0.0]
    monkeypatch.setattr(handle_module.time, "perf_counter", lambda: busy[0])
    order: list[str] = []

    async def work(give_way: GiveWay) -> None:
        asyncio.get_running_loop().call_soon(order.append, "another")
        for piece in range(3):
            order.append(f"piece {piece}")
            busy[0] += 0.6 * handle_module.TURN_SECONDS
            await give_way()

    engine.handle.run_every(1000, work, "work")
    await eventually(lambda: len(order) == 4, "all pieces")
    assert order == ["piece 0", "piece 1", "another", "piece 2"]


async def test_a_failure_is_logged_under_its_name_and_the_work_goes_on(engine: Engine) -> None:
    runs: list[float] = []

    async def work(give_way: GiveWay) -> None:
        runs.append(time.time())
        if len(runs) == 1:
            raise RuntimeError("no such zone")

    with capture_logs() as logs:
        engine.handle.run_every(1, work, "comparing")
        await eventually(lambda: len(runs) == 3, "it goes on", 5)
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert line["task"] == "comparing"


async def test_a_plugins_line_in_the_log_names_the_plugin(engine: Engine) -> None:
    with capture_logs() as logs:
        engine.handle.log("warning", "Peaks", "no model", node="n1")
    (line,) = logs
    assert (line["log_level"], line["plugin"], line["event"], line["node"]) == ("warning", "Peaks", "no model", "n1")
