"""The engine of several checkouts, each with an interpreter of its own: `python -m benchmarks engines`.

Each checkout's engine runs in a process of its own, by the Python of the checkout's `.venv`, and places pods as in
`benchmarks remembering`: queue, decision, reservation, binding, Event, with a client that answers at once. All place
their pods at the same time, so that whatever else the machine does meets all alike. Nothing is sent, so a live
scheduler spends more on each pod. In the first rounds a fresh interpreter of each also imports the daemon. All figures
are processor time (user and system), but for memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.core import CLASSES, PROFILES, STREAMS
from benchmarks.race.contestants import OURS, add_checkouts, checkouts, interpreter
from benchmarks.remembering import interval

IMPORTS = """
import re, time
from scheduler.imports import import_numpy, import_structlog
import_structlog()
import_numpy()
import scheduler.daemon
print(time.process_time())
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""
UNITS = {"placing": "us per pod", "imports": "ms", "rss": "MiB after the imports"}
Figures = Mapping[str, float]


class Engine:
    """The process of one checkout; a context manager that ends it."""

    def __init__(self, root: Path, options: argparse.Namespace) -> None:
        settings = (f"--{name}={getattr(options, name)}" for name in ("profile", "pods", "nodes", "count", "pairs"))
        self._command = [interpreter(root), "-m", "benchmarks.turns", *settings]
        # Byte code is there or is not, for all of them alike.
        self._environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
        self._root = root

    def __enter__(self) -> Engine:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._root,
            env=self._environment,
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    def begin(self, count: int) -> None:
        """Have it place so many pods."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()

    def end(self) -> float:
        """Wait until they are placed; returns processor time in seconds.

        Raises:
            RuntimeError: the process has ended.
        """
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the engine of {self._root} has ended: {' '.join(self._command)}")
        return float(answer)

    def begin_imports(self) -> subprocess.Popen[str]:
        """Start a fresh interpreter that imports the daemon and prints seconds of processor time, and KiB of memory."""
        command = [self._command[0], "-c", IMPORTS]
        return subprocess.Popen(command, cwd=self._root, env=self._environment, stdout=subprocess.PIPE, text=True)


def rounds(options: argparse.Namespace, roots: Mapping[str, Path]) -> Iterator[Mapping[str, Figures]]:
    """Yield the figures of each round, by the checkouts' names.

    Raises:
        RuntimeError: a process has ended.
    """
    with ExitStack() as stack:
        engines = {name: stack.enter_context(Engine(root, options)) for name, root in roots.items()}
        _turn(engines, CLASSES)
        for number in range(options.pairs):
            placed = _turn(engines, options.count)
            figures = {name: {"placing": 1e6 * seconds / options.count} for name, seconds in placed.items()}
            if number < options.imports:
                started = {name: engine.begin_imports() for name, engine in engines.items()}
                for name, process in started.items():
                    output, _ = process.communicate()
                    if process.returncode:
                        raise RuntimeError(f"the daemon of {roots[name]} cannot be imported")
                    seconds, kibibytes = output.split()
                    figures[name] |= {"imports": 1000 * float(seconds), "rss": int(kibibytes) / 1024}
            yield figures


def _turn(engines: Mapping[str, Engine], count: int) -> dict[str, float]:
    for engine in engines.values():
        engine.begin(count)
    return {name: engine.end() for name, engine in engines.items()}


def table(done: Sequence[Mapping[str, Figures]], units: Mapping[str, str] = UNITS) -> Iterator[str]:
    """Yield lines: of each figure median, quartiles and minimum, and the mean of the ratios to ours, with its 95 %
    interval. On a busy machine the minimum is the figure that others disturbed least."""
    for figure, unit in units.items():
        have = [each for each in done if figure in each[OURS]]
        for name in done[0]:
            values = [each[name][figure] for each in have]
            low, median, high = statistics.quantiles(values, n=4)
            line = f"{figure:<8} {name:<20} {median:8.1f} ({low:.1f} to {high:.1f}, least {min(values):.1f}) {unit}"
            if name != OURS:
                mean, half = interval([each[name][figure] / each[OURS][figure] for each in have])
                line += f", {mean:.3f} (95 %: {mean - half:.3f} to {mean + half:.3f}) of ours"
            yield line


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks engines", description=__doc__)
    add_checkouts(parser)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="default")
    parser.add_argument("--pods", choices=STREAMS, default="200 classes")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--count", type=int, default=1000, help="pods of a turn")
    parser.add_argument("--pairs", type=int, default=12, help="rounds, at least 3")
    parser.add_argument("--imports", type=int, default=12, help="of them with imports, at least 3")
    options = parser.parse_args(arguments)
    roots = checkouts(parser, options.before)
    if options.pairs < 3 or options.imports < 3:
        parser.error("--pairs, --imports: at least 3")
    done = []
    try:
        for figures in rounds(options, roots):
            done.append(figures)
            each = ", ".join(f"{name} {of['placing']:.0f} us" for name, of in figures.items())
            print(f"  {len(done)}: {each}", file=sys.stderr, flush=True)
    except RuntimeError as error:
        print(f"benchmarks engines: {error}", file=sys.stderr)
        return 1
    print("\n".join(table(done)))
    return 0
