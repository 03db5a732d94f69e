"""`python -m benchmarks race`: race one or more scenarios and report ratios."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchmarks.harness import control_plane, filled
from benchmarks.harness.contestants import OURS, add_checkouts, checkouts
from benchmarks.harness.scenario import Scenario, ScenarioError, Workload, choose, load
from benchmarks.race import report
from benchmarks.race.report import RaceRound, excesses, shortfalls
from benchmarks.race.rounds import race, race_checkouts

RESULTS = Path(__file__).resolve().parent.parent / "results"
_OK, _ERROR, _DIFFERENCES, _INVALID = 0, 1, 3, 4


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks race", description=__doc__)
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="NAME[/WORKLOAD]",
        help="scenario to race; may be repeated (default: all)",
    )
    parser.add_argument("--nodes", type=int, help="only workloads with this number of nodes")
    parser.add_argument(
        "--label", help="only workloads with this label (default: `performance`, unless --scenario or --nodes is given)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    add_checkouts(parser)
    parser.add_argument(
        "--bare",
        action="store_true",
        help="where pods preempt others, the null binder deletes victims, binds and says Scheduled, and nothing else",
    )
    filled.add_option(parser)
    parser.add_argument("--resume", action="store_true", help="reuse the finished rounds of an interrupted race")
    parser.add_argument("--check", action="store_true", help="exit with 3 when the workload misses a threshold")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--list", action="store_true", help="list the scenarios and their workloads")
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory for JSON and plots")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 0, 1 error, 3 a threshold was missed, 4 a scenario cannot be run."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    roots = checkouts(parser, options.before)
    try:
        scenarios = load()
        if options.list:
            _list(scenarios)
            return _OK
        label = options.label
        if label is None and options.nodes is None and not any("/" in name for name in options.scenario):
            label = "performance"
        chosen = list(choose(scenarios, options.scenario, label=label, nodes=options.nodes))
        if options.bare:
            chosen = [(scenario, _bare(workload)) for scenario, workload in chosen]
        if not chosen:
            raise ScenarioError("no workload has this label and number of nodes; see --list")
        for scenario, _ in chosen if options.scenario else ():
            scenario.require_implemented()
    except ScenarioError as error:
        print(f"benchmarks race: {error}", file=sys.stderr)
        return _INVALID
    try:
        return _race_all(chosen, options, roots)
    except KeyboardInterrupt:
        print("benchmarks race: interrupted; --resume goes on from the rounds that are finished", file=sys.stderr)
        return _ERROR


def _bare(workload: Workload) -> Workload:
    return workload.model_copy(update={"name": f"{workload.name}_Bare", "params": {**workload.params, "bare": 1}})


def _list(scenarios: dict[str, Scenario]) -> None:
    for scenario in scenarios.values():
        for workload in scenario.workloads:
            print(f"{scenario.name}/{workload.name}  {' '.join(workload.labels)}")


def _race_all(chosen: list[tuple[Scenario, Workload]], options: argparse.Namespace, roots: dict[str, Path]) -> int:
    paths = control_plane.executables(*(scenario.peer for scenario, _ in chosen))
    if options.before:
        others = [name for name in roots if name != OURS]
        for scenario, workload in chosen:
            cluster = filled.SavedCluster.of(options.cluster, scenario, workload, paths)
            runs = race_checkouts(scenario, workload, options.rounds, paths, roots, cluster)
            if options.json:
                print(
                    json.dumps([{name: run.figures for name, run in runs_by_name.items()} for runs_by_name in runs]),
                    flush=True,
                )
                continue
            print(f"{scenario.name}/{workload.name}, {options.rounds} rounds", flush=True)
            print(*(report.compared(runs, name) for name in others), sep="\n", flush=True)
        return _OK
    about = report.machine(paths)
    results, missed = [], []
    for scenario, workload in chosen:
        try:
            scenario.require_implemented()
        except ScenarioError as error:
            # Not asked for by name: the others are still worth racing.
            print(f"skipped: {error}", file=sys.stderr)
            continue
        result = _race_one(scenario, workload, paths, about, options)
        results.append(result)
        lines = shortfalls(result["ratios"], workload.thresholds)
        lines += excesses(result["figures"], {str(name): limit for name, limit in workload.limits.items()})
        missed += [f"{scenario.name}/{workload.name}: {line}" for line in lines]
        if not options.json:
            print(report.table(result), end="\n\n", flush=True)
    if options.json:
        print(json.dumps(results[0] if len(results) == 1 else results, indent=1))
    for line in missed:
        print(f"threshold missed: {line}", file=sys.stderr)
    return _DIFFERENCES if missed and options.check else _OK


def _race_one(
    scenario: Scenario, workload: Workload, paths: dict[str, Path], about: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    stem = f"{scenario.name}-{workload.name}"
    done_before = options.results / "rounds"
    done_before.mkdir(parents=True, exist_ok=True)
    cluster = filled.SavedCluster.of(options.cluster, scenario, workload, paths)
    key = _key(scenario, workload, about)
    numbers = range(1, options.rounds + 1)
    rounds: list[RaceRound] = []
    # Rounds that share a cluster are all run again: a finished one is of another cluster.
    for batch in [numbers] if workload.one_cluster else [[number] for number in numbers]:
        file = done_before / f"{stem}-{batch[0]}.json"
        done = _read_round(file, key) if options.resume and not workload.one_cluster else None
        if done is not None:
            rounds.append(done)
            continue
        span = f"rounds 1 to {batch[-1]}" if len(batch) > 1 else f"round {batch[0]} of {options.rounds}"
        print(f"{stem}: {span}", file=sys.stderr, flush=True)
        for each in race(scenario, workload, batch, paths, key, cluster):
            (done_before / f"{stem}-{each.number}.json").write_text(each.model_dump_json())
            rounds.append(each)
    result = report.document(scenario, workload, rounds, about)
    report.write(options.results, stem, result, report.plot(scenario, workload, rounds))
    return result


def _key(scenario: Scenario, workload: Workload, about: dict[str, Any]) -> str:
    text = json.dumps([scenario.model_dump(exclude={"workloads"}), workload.model_dump(), about], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read_round(file: Path, key: str) -> RaceRound | None:
    try:
        done = RaceRound.model_validate_json(file.read_text())
    except (OSError, ValidationError):
        return None
    return done if done.key == key else None
