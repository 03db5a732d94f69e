"""`python -m benchmarks race|start|endurance|program|core|spreading|preempting|numa …`."""

from __future__ import annotations

import runpy
import signal
import sys

COMMANDS = {
    "race": "this scheduler, its Go peer and a null binder on the same API server",
    "start": "from the start of the process to its first binding, with a full cluster, beside kube-scheduler",
    "endurance": "memory and file descriptors while 100,000 pods come and go",
    "program": "the Pulumi program on a local cluster: preview, update, and what it imports",
    "core": "decisions per second of the pure core, without I/O",
    "spreading": "microseconds per decision with spreading and affinity, without I/O",
    "preempting": "milliseconds per pod that preempts, without I/O",
    "numa": "decisions per second with NodeResourceTopologyMatch, without I/O",
}


def main() -> int:
    """Run the named benchmark; 2 for a name that is none."""
    # So that a command that is told to end takes its servers with it.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name == "race":
        from benchmarks.race.command import main as race

        return race(sys.argv[2:])
    if name == "start":
        from benchmarks.start import main as start

        return start(sys.argv[2:])
    if name == "endurance":
        from benchmarks.endurance import main as endurance

        return endurance(sys.argv[2:])
    if name == "program":
        from benchmarks.program import main as program

        return program(sys.argv[2:])
    if name in COMMANDS:
        del sys.argv[1]
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
        return 0
    print("python -m benchmarks COMMAND …, one of:", file=sys.stderr)
    for command, text in COMMANDS.items():
        print(f"  {command:<10} {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
