"""Runs our scheduler with a view into it: `python -m tests.faults.debugged FLAGS OF KUBE-SCHEDULER`.

SIGUSR2 writes its cache to the file $FAULTS_DUMP. $FAULTS_SKEW names a file whose number of seconds is added to the
wall clock, while the monotonic clock goes on as it is. $FAULTS_SILENCE shortens how long a watch may be silent, in
seconds. $FAULTS_BLOCK, `loop:8` or `interpreter:8`, says what SIGRTMIN stops for so many seconds: the event
loop, or every thread. $FAULTS_TIES, if set, has it take the first of equal nodes instead of any. $FAULTS_MUTANT plants
a fault of `tests.faults.mutants`.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
import pkgutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

_real_time = time.time


def _skewed_time() -> float:
    try:
        return _real_time() + float(Path(os.environ["FAULTS_SKEW"]).read_text() or 0)
    except (KeyError, OSError, ValueError):
        return _real_time()


def import_everything() -> None:
    """Import all that a running scheduler imports, with a clock that can still be skewed."""
    # Before anything takes a reference to it.
    time.time = _skewed_time
    from scheduler.imports import import_structlog

    import_structlog()
    import scheduler.plugins

    modules = ["scheduler.app", "scheduler.start", "scheduler.daemon", "scheduler.observe.endpoints", "yaml"]
    modules += ["aiohttp.web", "cryptography.x509", "cryptography.hazmat.primitives.asymmetric.ec"]
    packages = pkgutil.walk_packages(scheduler.plugins.__path__, "scheduler.plugins.")
    for name in (*modules, *(package.name for package in packages)):
        importlib.import_module(name)


def dump(daemon: Any) -> dict[str, Any]:
    """The cache: nodes, where it thinks each pod is, and which pods it only assumes there."""
    state = daemon.engine.state
    pods = {pod.uid: name for name in _known_nodes(state) for pod in state.pods_on(name)}
    return {
        "nodes": sorted(state.node_names),
        "pods": pods,
        "assumed": sorted(uid for uid in pods if state.is_assumed(uid)),
        "queue": {name: int(count) for name, count in dict(daemon.engine.queue.counts()).items()},
    }


def _known_nodes(state: Any) -> set[str]:
    # Pods stay known on nodes that are gone.
    return set(state.node_names) | set(state._by_node)


def write_dumps(file: Path) -> None:
    """Have every daemon of this process write its cache on SIGUSR2."""
    from scheduler import daemon

    run = daemon.Daemon.run

    async def run_with_dumps(self: Any) -> int:
        def write() -> None:
            temporary = file.with_suffix(".tmp")
            temporary.write_text(json.dumps(dump(self)))
            temporary.replace(file)

        self._loop.add_signal_handler(signal.SIGUSR2, write)
        return await run(self)

    daemon.Daemon.run = run_with_dumps  # type: ignore[method-assign]


def block_on_signal(how: str, seconds: float) -> None:
    """Have every daemon of this process do nothing for a while on SIGRTMIN."""
    from scheduler import daemon

    run = daemon.Daemon.run
    # A call by way of PyDLL keeps the interpreter's lock, so that no other thread runs either.
    whole_interpreter = ctypes.PyDLL(None).sleep

    async def run_with_blocks(self: Any) -> int:
        def block() -> None:
            if how == "loop":
                time.sleep(seconds)
            else:
                whole_interpreter(int(seconds))

        self._loop.add_signal_handler(signal.SIGRTMIN, block)
        try:
            return await run(self)
        finally:
            # The loop's end would leave the default, by which a signal that comes late kills the process.
            self._loop.remove_signal_handler(signal.SIGRTMIN)
            signal.signal(signal.SIGRTMIN, signal.SIG_IGN)

    daemon.Daemon.run = run_with_blocks  # type: ignore[method-assign]


def shorten_silence(seconds: float) -> None:
    """Let watches count as dead after so many seconds without a word."""
    from scheduler.kube.client import ReflectorTiming, listwatch

    listwatch.ReflectorTiming = functools.partial(ReflectorTiming, silence=seconds)  # type: ignore[assignment, misc]


def take_the_first_of_ties() -> None:
    """Let every engine of this process choose the first of equals."""
    from scheduler import daemon

    class First:
        def random(self) -> float:
            return 0.0

    daemon.Engine = functools.partial(daemon.Engine, rng=First())  # type: ignore[assignment, misc]


def main() -> int:
    """Run it; returns the scheduler's exit code."""
    if os.environ.get("FAULTS_SKEW"):
        # Before anything takes a reference to it.
        time.time = _skewed_time
    from scheduler.__main__ import main as run_scheduler

    if file := os.environ.get("FAULTS_DUMP"):
        write_dumps(Path(file))
    if block := os.environ.get("FAULTS_BLOCK"):
        how, seconds = block.split(":")
        block_on_signal(how, float(seconds))
    if silence := os.environ.get("FAULTS_SILENCE"):
        shorten_silence(float(silence))
    if os.environ.get("FAULTS_TIES"):
        take_the_first_of_ties()
    if name := os.environ.get("FAULTS_MUTANT"):
        from tests.faults.mutants import MUTANTS

        MUTANTS[name].plant()
    return run_scheduler(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
