"""`python -m benchmarks attack`: what a tenant's objects cost the pods of others, under ours and the Go scheduler.

Each attack has etcd and an API server of its own, with nodes without kubelets and without other controllers. One
contestant after the other bears it there, so that each has the machine to itself: a victim of another namespace is
created every 250 ms, for a while before the attack, during it, and after its pods are deleted. The tenant is a
ServiceAccount that may create and delete in one namespace, and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.attack.attacks import ATTACKS, Attack
from benchmarks.attack.figures import Turn, complaints, table
from benchmarks.attack.trial import AttackTrial, Size
from benchmarks.harness import control_plane
from benchmarks.harness.contestants import OURS, PEER, ROOT, add_checkouts, checkouts
from benchmarks.harness.figures import order_of, report

_OK, _DIFFERENCES = 0, 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks attack", description=__doc__)
    parser.add_argument(
        "--attack", action="append", choices=list(ATTACKS), metavar="NAME", help="may be repeated (all); see --list"
    )
    parser.add_argument(
        "--only", action="append", choices=[OURS, PEER], help="of the contestants; checkouts come anyway"
    )
    add_checkouts(parser)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30, help="of each phase")
    parser.add_argument(
        "--patience", type=float, default=60, help="seconds that victims may wait for a node after the last phase"
    )
    parser.add_argument("--rounds", type=int, default=1, help="who is first changes from round to round")
    parser.add_argument(
        "--check", action="store_true", help="exit with 3 when victims of ours wait too long, or /livez fails"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    parser.add_argument("--list", action="store_true", help="say what each attack exploits")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 0, 1 error, 3 ours is not good enough."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.nodes < 1 or options.rounds < 1 or options.seconds <= 0:
        parser.error("at least one node, one round, and some seconds")
    if options.list:
        for name, attack in ATTACKS.items():
            print(name, textwrap.indent(textwrap.fill(attack.exploits, 100), "    "), sep="\n")
        return _OK
    roots = checkouts(parser, options.before)
    chosen = {name: ATTACKS[name] for name in options.attack or ATTACKS}
    names = {PEER: "Go"}
    done = report(
        _turns(options, chosen, roots),
        lambda turn: table([turn], names)[-1],
        lambda turns: table(turns, names),
        options.json,
    )
    missed = complaints(done)
    for line in missed:
        print(f"not good enough: {line}", file=sys.stderr)
    return _DIFFERENCES if missed and options.check else _OK


def _turns(options: argparse.Namespace, chosen: Mapping[str, Attack], roots: dict[str, Path]) -> Iterator[Turn]:
    paths = control_plane.executables(*(attack.profile.peer for attack in chosen.values()))
    shown = options.only or [OURS, PEER]
    contestants = {
        name: root for name, root in {PEER: ROOT, **roots}.items() if name in shown or name not in (OURS, PEER)
    }
    size = Size(options.nodes, options.seconds, options.patience)
    for number in range(1, options.rounds + 1):
        for name, attack in chosen.items():
            with control_plane.running(paths) as cluster:
                trial = AttackTrial(name, attack, size, cluster, number)
                asyncio.run(trial.build())
                for contestant in order_of(contestants, number):
                    yield asyncio.run(trial.turn(contestant, contestants[contestant]))
