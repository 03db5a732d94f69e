"""`python -m benchmarks COMMAND`: see `--help` for the commands."""

from __future__ import annotations

import importlib
import runpy
import signal
import sys

USAGE = "usage: python -m benchmarks COMMAND [OPTIONS]   (COMMAND --help shows its options)"
COMMANDS = {
    "race": "schedule the same workload with this scheduler, kube-scheduler and a null binder, in turn",
    "attack": "how long other tenants' pods wait while one tenant attacks the scheduler, beside kube-scheduler",
    "lists": "processor time for what a start reads first: lists and a load, without an API server",
    "start": "time from process start to the first binding on a full cluster, beside kube-scheduler",
    "endurance": "memory and file descriptors while 100,000 pods are created and deleted",
    "soak": "memory and latency on the largest cluster that Kubernetes supports while its pods are replaced",
    "flood": "servers and their memory while two clients hold 15,000 idle connections",
    "sharing": "pods that kubelets reject where kube-scheduler uses the same nodes",
    "rebalancing": "evictions until an uneven cluster is even: our rebalancer beside the descheduler",
    "program": "the Pulumi program on a local cluster: time of preview and update, and its imports",
    "core": "decisions per second of the scheduling core, without I/O",
    "preempting": "milliseconds per pod that preempts others, without I/O",
    "plan": "CPU time and memory of `simulate` and `plan` on a large snapshot",
    "numa": "decisions per second with NodeResourceTopologyMatch, without I/O",
}
# These have a `main` that takes arguments and returns an exit code; the others are scripts.
_MODULES = {"plan": "planning"}
_ENTRY_POINTS = {
    "race": "benchmarks.race.command",
    "attack": "benchmarks.attack.command",
    "lists": "benchmarks.lists",
    "start": "benchmarks.start",
    "endurance": "benchmarks.endurance",
    "soak": "benchmarks.soak",
    "program": "benchmarks.program",
    "flood": "benchmarks.flood",
    "sharing": "benchmarks.sharing.command",
    "rebalancing": "benchmarks.rebalancing.command",
}


def main() -> int:
    """Run the named benchmark. Exit code: the benchmark's own, or 2 for an unknown command."""
    # A benchmark that is terminated must stop its servers first.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in _ENTRY_POINTS:
        code: int = importlib.import_module(_ENTRY_POINTS[name]).main(sys.argv[2:])
        return code
    if name in COMMANDS:
        del sys.argv[1]
        runpy.run_module(f"benchmarks.{_MODULES.get(name, name)}", run_name="__main__", alter_sys=True)
        return 0
    help_wanted = name in ("-h", "--help")
    lines = [USAGE, "", *(f"  {command:<16}  {text}" for command, text in COMMANDS.items())]
    print("\n".join(lines), file=sys.stdout if help_wanted else sys.stderr)
    return 0 if help_wanted else 2


if __name__ == "__main__":
    sys.exit(main())
