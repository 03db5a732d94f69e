"""`python -m benchmarks sharing`: how many pods kubelets reject where kube-scheduler and ours use the same nodes.

Pods arrive at a steady rate, to both schedulers alternately, and with each a random other one ends, so that the nodes
stay as full as they are. Nothing replaces a rejected pod. The kubelets of the nodes are played, by kubelet's rule.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness import control_plane
from benchmarks.harness.contestants import OURS, PEER
from benchmarks.harness.figures import markdown, report
from benchmarks.sharing.cell import CellResult, SharingCell, Way, run

_MAX_PODS = 1000


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sharing", description=__doc__)
    parser.add_argument("--nodes", type=int, default=30, help="each has room for 16 pods")
    parser.add_argument("--rate", type=int, action="append", help="pods a second; may be repeated (10, 100)")
    parser.add_argument("--fill", type=int, action="append", help="percent; may be repeated (50, 80, 95)")
    parser.add_argument(
        "--way",
        action="append",
        choices=[way.value for way in Way],
        help="of avoiding conflicts; may be repeated (all)",
    )
    parser.add_argument("--seconds", type=float, default=20, help="how long pods arrive; at most 1000 of them")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.nodes < 2 or options.rounds < 1:
        parser.error("at least two nodes and one round")
    report(_results(options), _line, lambda done: [*table(done), "", *figures(done)], options.json)
    return 0


def _results(options: argparse.Namespace) -> Iterator[CellResult]:
    with control_plane.running(control_plane.executables("kube-scheduler")) as cluster:
        for cell in _cells(options):
            yield run(cell, cluster)
            cluster.require_alive()


def _cells(options: argparse.Namespace) -> Iterator[SharingCell]:
    ways = [Way(way) for way in options.way or list(Way)]
    for number in range(options.rounds):
        for rate in options.rate or (10, 100):
            pods = min(int(rate * options.seconds), _MAX_PODS)
            for fill in options.fill or (50, 80, 95):
                for way in ways:
                    yield SharingCell(options.nodes, fill, rate, pods, way, seed=number + 1)


def _line(result: CellResult) -> str:
    cell = result.cell
    counts = ", ".join(
        f"{role} {sum(outcome.rejected.values())} of {outcome.bound} rejected"
        for role, outcome in result.outcomes.items()
    )
    return (
        f"{cell.rate}/s, {cell.fill} %, {cell.way}: {counts}; {result.given_up} given up, {result.waiting} wait,"
        f" {result.lost} requests lost, {result.seconds:.0f} s"
    )


def table(results: Sequence[CellResult]) -> list[str]:
    """Return a Markdown table: a row per rate and fill, a column per way; rejected pods of ours and of the other in
    percent of those that each bound, summed over the rounds."""
    ways = list(dict.fromkeys(result.cell.way for result in results))
    rows = dict.fromkeys((result.cell.rate, result.cell.fill) for result in results)
    table_rows = []
    for rate, fill in rows:
        cells = []
        for way in ways:
            chosen = [
                result
                for result in results
                if (result.cell.rate, result.cell.fill, result.cell.way) == (rate, fill, way)
            ]
            cells.append(" + ".join(_percent(chosen, role) for role in (OURS, PEER)))
        table_rows.append([rate, f"{fill} %", *cells])
    return markdown(["pods/s", "full", *ways], table_rows)


def figures(results: Sequence[CellResult]) -> list[str]:
    """Return a Markdown table: a row per rate, fill and way, with what became of the pods of all rounds."""
    groups: dict[tuple[int, int, Way], list[CellResult]] = {}
    for result in results:
        groups.setdefault((result.cell.rate, result.cell.fill, result.cell.way), []).append(result)
    rows = []
    for (rate, fill, way), rounds in groups.items():
        rejected = [sum(sum(result.outcomes[role].rejected.values()) for result in rounds) for role in (OURS, PEER)]
        bound = [sum(result.outcomes[role].bound for result in rounds) for role in (OURS, PEER)]
        placed = [number - lost for number, lost in zip(bound, rejected, strict=True)]
        seconds = f"{min(result.seconds for result in rounds):.0f}–{max(result.seconds for result in rounds):.0f}"
        given_up, waiting = sum(result.given_up for result in rounds), sum(result.waiting for result in rounds)
        pairs = (f"{rejected[0]} + {rejected[1]}", f"{placed[0]} + {placed[1]}")
        rows.append([rate, f"{fill} %", way, len(rounds), *pairs, given_up, waiting, seconds])
    headings = ["pods/s", "full", "way", "rounds", "rejected: ours + other", "placed", "given up", "no node", "seconds"]
    return markdown(headings, rows)


def _percent(results: Sequence[CellResult], role: str) -> str:
    bound = sum(result.outcomes[role].bound for result in results)
    rejected = sum(sum(result.outcomes[role].rejected.values()) for result in results)
    return f"{100 * rejected / bound:.1f} %" if bound else "-"
