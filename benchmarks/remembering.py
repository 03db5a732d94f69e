"""What remembering decisions costs: `python -m benchmarks remembering`.

Two whole engines place pods as fast as they can: queue, decision, reservation, binding, Event, with a client that
answers at once. One of them remembers its decisions. They take turns in one process; the figure is the ratio of their
CPU time (user and system) per turn, pair by pair. Nothing is sent, so a live scheduler spends more on each pod, and
remembering is a smaller part of that.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from benchmarks.core import CLASSES, PROFILES, STREAMS, cluster, stream
from scheduler.config import load_configuration
from scheduler.engine import HISTORY_BYTES, Engine, EventRecorder, HistoryLimits, Outputs, Permissions
from scheduler.framework import Clocks, MonotonicSeconds, WallSeconds
from scheduler.kube.model import EventType
from scheduler.observe import LoopWatchdog, Metrics

RECORDS = 1000
GC_THRESHOLDS = (50_000, 20, 50)
"""The daemon's, once it has begun."""
_TAKEN = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
_T = {2: 4.30, 4: 2.78, 7: 2.36, 9: 2.26, 11: 2.20, 14: 2.14, 19: 2.09, 29: 2.05}
"""Student's t for 95 %, two-sided, by degrees of freedom."""


class AnsweringClient:
    """Takes everything, as the API server would."""

    def __init__(self) -> None:
        self._left = 0
        self._done = asyncio.Event()

    async def bindings(self, number: int, begin: Callable[[], object]) -> None:
        """Wait for so many Bindings after a beginning."""
        self._left = number
        self._done.clear()
        begin()
        await self._done.wait()

    async def post(self, path: str, body: Any, **_: Any) -> bytes:
        if path.endswith("/binding"):
            self._left -= 1
            if not self._left:
                self._done.set()
        return _TAKEN

    async def patch(self, path: str, body: Any, *_: Any, **__: Any) -> bytes:
        return b"{}"

    async def delete(self, path: str, body: Any = None, **_: Any) -> bytes:
        return b"{}"


class TurnClock:
    """Goes while its engine has its turn: time that the other one takes earns this one no details."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before, self._since = 0.0, math.nan

    def begin(self) -> None:
        """The engine's turn begins."""
        self._since = self._clock()

    def end(self) -> None:
        """It is over."""
        self._before += self._clock() - self._since
        self._since = math.nan

    def seconds(self) -> MonotonicSeconds:
        """Return the seconds of all turns."""
        turn = 0.0 if math.isnan(self._since) else self._clock() - self._since
        return MonotonicSeconds(self._before + turn)


class Contestant:
    """An engine, with or without a history, and its endless stream of pods."""

    def __init__(self, options: argparse.Namespace, *, remembers: bool) -> None:
        self._client = AnsweringClient()
        self._clock, self._processor = TurnClock(time.perf_counter), TurnClock(time.process_time)
        clocks = Clocks(lambda: WallSeconds(time.time()), self._clock.seconds)
        history = None
        if remembers:
            history = HistoryLimits(RECORDS, RECORDS * HISTORY_BYTES, options.share, self._processor.seconds)
        client: Any = self._client
        self._recorder = EventRecorder(client, instance="benchmark", clocks=clocks)
        text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- {PROFILES[options.profile].strip()}
"""
        self._engine = Engine(
            load_configuration(text, source="benchmark", external_load=True),
            Outputs(client, self._recorder, Metrics(), LoopWatchdog(60), history=history),
            Permissions(lambda: True, lambda: True),
            clocks=clocks,
            rng=random.Random(1),
        )
        filled = cluster(options.nodes)
        for name in filled.node_names:
            if (info := filled.node(name)) is not None:
                self._engine.state.upsert_node(info)
        for placed in filled.pods():
            self._engine.state.upsert_pod(placed)
        self._pods = stream(options.pods, CLASSES + options.count * options.pairs)
        self._task = asyncio.create_task(self._engine.cycle.run())
        self._recorder.start()

    async def turn(self, number: int) -> float:
        """Place so many pods; returns the CPU seconds."""
        arrived = [(EventType.ADDED, next(self._pods)) for _ in range(number)]
        began = self._processor.seconds()
        self._clock.begin()
        self._processor.begin()
        await self._client.bindings(number, functools.partial(self._engine.pods.apply, arrived))
        # What follows the last Binding, Events included, is part of it.
        await self._recorder.drain(60)
        self._processor.end()
        self._clock.end()
        self._recorder.start()
        return self._processor.seconds() - began

    async def stop(self) -> None:
        """End its tasks."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._recorder.drain(1)


def settle() -> None:
    """Do as the daemon does: with Python's own thresholds, the collector would walk what is there at any time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def compare(options: argparse.Namespace) -> list[float]:
    """Run the pairs and print them; returns the ratios."""
    contestants = {remembers: Contestant(options, remembers=remembers) for remembers in (False, True)}
    ratios = []
    for contestant in contestants.values():
        await contestant.turn(CLASSES)
    settle()
    for number in range(options.pairs):
        # Who begins changes, so that a machine that becomes slower or faster counts for both.
        first = number % 2 == 0
        micros = {on: await contestants[on].turn(options.count) / options.count * 1e6 for on in (first, not first)}
        ratios.append(micros[True] / micros[False])
        print(f"pair {number + 1}: {micros[False]:.0f} us without, {micros[True]:.0f} us with: {ratios[-1]:.4f}")
    for contestant in contestants.values():
        await contestant.stop()
    return ratios


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of at least 3 values, and half the width of its 95 % confidence interval."""
    t = _T[max(degrees for degrees in _T if degrees < len(values))]
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def summary(ratios: Sequence[float]) -> str:
    """Return the mean of the ratios with its interval."""
    mean, half = interval(ratios)
    low, high, median = (100 * (ratio - 1) for ratio in (mean - half, mean + half, statistics.median(ratios)))
    return (
        f"with the history, CPU time per pod is {100 * (mean - 1):+.1f} % (95 %: {low:+.1f} to {high:+.1f} %; median "
        f"{median:+.1f} %), {len(ratios)} pairs"
    )


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="benchmarks remembering", description=__doc__)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="TargetLoadPacking")
    parser.add_argument("--pods", choices=STREAMS, default="200 classes")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--count", type=int, default=1000, help="pods of a turn")
    parser.add_argument("--pairs", type=int, default=12, help="at least 3")
    parser.add_argument("--share", type=float, default=0.01, help="share of the time for details (--decision-details)")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(summary(asyncio.run(compare(options))))


if __name__ == "__main__":
    main()
