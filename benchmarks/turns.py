"""An engine that places pods when it is told to: the process of one checkout in `python -m benchmarks engines`.

Imports what the daemon's own environment has, and nothing more. Each line of standard input is a number of pods to
place; the answer is the processor time of that in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

import structlog

from benchmarks.remembering import Contestant, settle


async def _serve(options: argparse.Namespace) -> None:
    contestant = Contestant(options, remembers=True)
    for number, line in enumerate(iter(sys.stdin.readline, "")):
        print(await contestant.turn(int(line)), flush=True)
        if not number:
            settle()
    await contestant.stop()


def main(arguments: Sequence[str]) -> None:
    """Serve until standard input is closed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--pods", required=True)
    parser.add_argument("--share", type=float, default=0.01)
    for name in ("nodes", "count", "pairs"):
        parser.add_argument(f"--{name}", type=int, required=True)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    asyncio.run(_serve(parser.parse_args(arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
