"""`python -m benchmarks COMMAND`: see `--help` for the commands."""

from __future__ import annotations

import importlib
import signal
import sys

from devcluster.errors import DevClusterError
from scheduler.kube.client import KubeError

USAGE = "usage: python -m benchmarks COMMAND [OPTIONS]   (COMMAND --help shows its options)"
COMMANDS = {
    # name: (the module whose `main` takes arguments and returns an exit code, what it measures)
    "race": (
        "race.command",
        "schedule the same workload with this scheduler, kube-scheduler and a null binder, in turn",
    ),
    "attack": (
        "attack.command",
        "how long other tenants' pods wait while one tenant attacks the scheduler, beside kube-scheduler",
    ),
    "lists": ("lists", "processor time for what a start reads first: lists and a load, without an API server"),
    "start": ("start", "time from process start to the first binding on a full cluster, beside kube-scheduler"),
    "endurance": ("endurance", "memory and file descriptors while 100,000 pods are created and deleted"),
    "soak": ("soak", "memory and latency on the largest cluster that Kubernetes supports while its pods are replaced"),
    "flood": ("flood", "servers and their memory while two clients hold 15,000 idle connections"),
    "sharing": ("sharing.command", "pods that kubelets reject where kube-scheduler uses the same nodes"),
    "rebalancing": (
        "rebalancing.command",
        "evictions until an uneven cluster is even: our rebalancer beside the descheduler",
    ),
    "program": ("program", "the Pulumi program on a local cluster: time of preview and update, and its imports"),
    "core": ("core", "decisions per second of the scheduling core, without I/O"),
    "gangs": ("gangs", "milliseconds to decide a whole gang, anywhere and in one rack, without I/O"),
    "preempting": ("preempting", "milliseconds per pod that preempts others, without I/O"),
    "plan": ("planning", "CPU time and memory of `simulate` and `plan` on a large snapshot"),
    "numa": ("numa", "decisions per second with NodeResourceTopologyMatch, without I/O"),
}


def main(arguments: list[str]) -> int:
    """Run the named benchmark. Exit code: the benchmark's own, 1 for an error, or 2 for an unknown command."""
    # A benchmark that is terminated must stop its servers first.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    name = arguments[0] if arguments else ""
    if name in COMMANDS:
        try:
            code: int = importlib.import_module(f"benchmarks.{COMMANDS[name][0]}").main(arguments[1:])
        except (DevClusterError, RuntimeError, KubeError) as error:
            print(f"benchmarks {name}: {error}", file=sys.stderr)
            return 1
        return code
    help_asked = name in ("-h", "--help")
    lines = [USAGE, "", *(f"  {command:<16}  {text}" for command, (_, text) in COMMANDS.items())]
    print("\n".join(lines), file=sys.stdout if help_asked else sys.stderr)
    return 0 if help_asked else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
