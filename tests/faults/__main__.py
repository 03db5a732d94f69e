"""Plays scenarios of the fault matrix on a control plane of its own.

    python -m tests.faults --list
    python -m tests.faults --scenario 8 --seed 3            # by number or name
    python -m tests.faults --scenario 13 --kind real        # the real kube-scheduler instead of ours
    python -m tests.faults --mix 20 --seed 100              # random mixes of faults, seeds 100 to 119
    python -m tests.faults --mix 1000 --record FILE --resume --part 1/2     # every second seed that FILE does not have
    python -m tests.faults --kill-and-compare 20 --seed 1   # killed at random requests: the end of an undisturbed run
    python -m tests.faults --sieve                          # starts in the past, unseen states, ends between two writes
    python -m tests.faults --soak 100000 --minutes 60       # pods and nodes come and go: what grows with them
    python -m tests.faults --endure 420 --record runs.jsonl # one pair under mixed faults for so many minutes

Prints one JSON line per scenario. Exit code: 0 without a violation, else 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.faults import kills, mixes, sieve
from tests.faults.endurance import Endurance
from tests.faults.plane import FaultPlane, fault_plane
from tests.faults.scenarios import SCENARIOS, run
from tests.faults.schedulers import OURS
from tests.faults.soak import BATCH, PLANE_FLAGS, Soak, slopes
from tests.faults.stage import Result, prepare


def main(arguments: list[str]) -> int:
    """Play what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument("--scenario", action="append", default=[], help="number of a fault, or name of a scenario")
    parser.add_argument("--all", action="store_true", help="every scenario")
    parser.add_argument("--quick", action="store_true", help="those of every run of the tests")
    parser.add_argument("--kind", default=OURS, help="ours, real, or a mutant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mix", type=int, default=0, help="so many random mixes")
    parser.add_argument("--kill-and-compare", type=int, default=0, metavar="N", help="so many pairs of runs")
    parser.add_argument("--sieve", action="store_true", help="Sieve's three views: stale, unobserved, intermediate")
    parser.add_argument(
        "--soak", type=int, default=0, metavar="PODS", help="so many pods, on a control plane of their own"
    )
    parser.add_argument("--batch", type=int, default=BATCH, help="pods of the soak between two replaced nodes")
    parser.add_argument("--endure", type=float, default=0, metavar="MINUTES", help="one pair, under mixed faults")
    parser.add_argument("--minutes", type=float, default=0, help="end mixes, kills or the soak after so many minutes")
    parser.add_argument("--scale", type=float, default=1, help="multiplies the numbers of pods in scenarios of load")
    parser.add_argument("--keep", type=Path, help="directory for the schedulers' logs")
    parser.add_argument("--record", type=Path, help="add the results to this file, for docs/reliability.md")
    parser.add_argument("--resume", action="store_true", help="leave out what that file has already")
    parser.add_argument(
        "--part", type=_part, default=(1, 1), help="1/2: the first half of the seeds, to run two at once"
    )
    options = parser.parse_args(arguments)
    # As on Ctrl-C: the control plane and the schedulers end with the run.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.resume and options.record is None:
        parser.error("--resume needs --record FILE")
    known = recorded(options.record) if options.resume else set()
    os.environ["FAULTS_SCALE"] = str(options.scale)
    chosen = [
        each for each in SCENARIOS
        if options.all or (options.quick and each.quick) or {str(each.number), each.name} & set(options.scenario)
    ]  # fmt: skip
    if options.list:
        for each in SCENARIOS:
            print(f"{each.number:3} {each.name}: {each.promise}")
        return 0
    if options.soak:
        return _soak(options)
    if options.endure:
        return _endure(options)
    if not chosen and not (options.mix or options.kill_and_compare or options.sieve):
        parser.error(
            "nothing to play: give --scenario, --quick, --all, --mix, --kill-and-compare, --sieve, --soak, --endure"
        )
    number, parts = options.part
    chosen = [each for each in chosen[number - 1 :: parts] if (each.name, options.kind, options.seed) not in known]

    def seeds(label: str, count: int) -> list[int]:
        every = range(options.seed, options.seed + count)[number - 1 :: parts]
        return [seed for seed in every if (label, options.kind, seed) not in known]

    violations = 0
    with tempfile.TemporaryDirectory(prefix="faults-logs-") as temporary, fault_plane() as plane:
        directory = options.keep or Path(temporary)
        limits = {"minutes": options.minutes, "kind": options.kind}

        async def play() -> int:
            await prepare(plane)
            count = 0
            for each in chosen:
                count += _report(await run(each, plane, directory, options.seed, options.kind), options.record)
            chance = (
                mixes.play(plane, directory, seeds("mix", options.mix), **limits),
                kills.play(plane, directory, seeds("kill", options.kill_and_compare), **limits),
            )
            views = sieve.play(plane, directory, options.seed, options.kind)
            for results in (*chance, *([views] if options.sieve else [])):
                async for result in results:
                    count += _report(result, options.record)
            return count

        violations = asyncio.run(play())
    return 1 if violations else 0


def _soak(options: argparse.Namespace) -> int:
    """Returns 1 when something grows."""

    async def play(plane: FaultPlane, soak: Soak) -> None:
        await prepare(plane)
        async for sample in soak.run(options.soak, options.minutes):
            _write(sample, options.record)

    with tempfile.TemporaryDirectory(prefix="faults-soak-") as temporary, fault_plane(PLANE_FLAGS) as plane:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        soak = Soak(plane, directory, options.seed, options.batch)
        try:
            asyncio.run(play(plane, soak))
        finally:
            # What there is after an interrupt says something, too.
            figures = slopes(soak.samples)
            for name, figure in figures.items():
                _write({"figure": name, **figure.row()}, options.record)
    return int(any(figure.grows for figure in figures.values()))


def _endure(options: argparse.Namespace) -> int:
    """Returns 1 when a promise was broken."""

    async def play(plane: FaultPlane, endurance: Endurance) -> None:
        await prepare(plane)
        async for row in endurance.run(options.endure):
            _write(row, options.record)

    with tempfile.TemporaryDirectory(prefix="faults-endurance-") as temporary, fault_plane() as plane:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        endurance = Endurance(plane, directory, options.seed, options.kind)
        try:
            asyncio.run(play(plane, endurance))
        finally:
            report = endurance.report()
            _write({"report": report}, options.record)
    return int(bool(report["broken"]))


def _part(text: str) -> tuple[int, int]:
    number, parts = map(int, text.split("/"))
    if not 1 <= number <= parts:
        raise ValueError(text)
    return number, parts


def recorded(file: Path) -> set[tuple[str, str, int]]:
    """Name, kind and seed of what a file of results has; a line that was cut off by a kill counts as missing."""
    names = set()
    for line in file.read_text().splitlines() if file.exists() else ():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            names.add((row["name"].split(" ")[0], row["kind"], row["seed"]))
    return names


def _report(result: Result, record: Path | None) -> int:
    _write(result.row(), record)
    return len(result.violations)


def _write(row: Mapping[str, object], record: Path | None) -> None:
    line = json.dumps(row)
    print(line, flush=True)
    if record is not None:
        with record.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
