"""`python -m benchmarks program`: how long the Pulumi program takes on a local cluster.

Each round begins and ends without the stack: preview, update (which waits for the scheduler), preview and update
without changes, update of objects that need no waiting (the FlowSchemas), destroy. Updates include their own preview,
as users run them. The figures are wall clock and the CPU time of the engine with its children; the cluster's is not
counted. `--imports` only shows what the program imports.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from devcluster import environment
from devcluster.cluster import LocalCluster
from devcluster.demo.pulumi import DemoStack
from devcluster.errors import DevClusterError
from devcluster.spec import ClusterSpec

CHECKOUT = Path(__file__).resolve().parent.parent
STACK = "local"
"""Its file has the salt of its passphrase, so that the engine writes nothing into the checkout."""
STARTED = "import components, stacks.composition, stacks.loading"
"""What `__main__` imports."""
TARGETS = {"preview, all new": 5.0, "preview, no change": 5.0, "up, no change": 30.0, "up, nothing to wait for": 30.0}
"""Seconds by the clock, on a machine that does nothing else."""
Figures = dict[str, dict[str, float]]


class Bench:
    """The stack on a cluster, and how long each command took."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self._file = directory / "Pulumi.bench.yaml"
        self._environment = {
            **os.environ,
            **environment.variables(cluster.layout, cluster.prometheus_url, os.environ),
        }
        self.seen: dict[str, list[tuple[float, float]]] = defaultdict(list)
        DemoStack(CHECKOUT, STACK, self._environment).select()

    def round(self) -> None:
        """One life of the stack."""
        try:
            self._measure("preview, all new", "preview")
            self._measure("up, all new, with waiting", "up", "--yes")
            self._measure("preview, no change", "preview", "--expect-no-changes")
            self._measure("up, no change", "up", "--yes", "--expect-no-changes")
            self._measure("up, nothing to wait for", "up", "--yes", optionalObjects={"flowSchemas": False})
        finally:
            self._measure("destroy", "destroy", "--yes")

    def figures(self) -> Figures:
        """Medians, and the longest by the clock."""
        return {
            name: {
                "seconds": statistics.median(clock for clock, _ in runs),
                "longest": max(clock for clock, _ in runs),
                "cpu": statistics.median(cpu for _, cpu in runs),
            }
            for name, runs in self.seen.items()
        }

    def _measure(self, name: str, *arguments: str, **settings: Any) -> None:
        stack = yaml.safe_load((CHECKOUT / "stacks" / f"Pulumi.{STACK}.yaml").read_text(encoding="utf-8"))
        stack["config"] |= {f"secondary-scheduler:{key}": value for key, value in settings.items()}
        self._file.write_text(yaml.safe_dump(stack), encoding="utf-8")
        common = ("--stack", STACK, "--config-file", str(self._file), "--non-interactive", "--color", "never")
        clock, cpu = time.monotonic(), _children_cpu()
        done = subprocess.run(
            ["pulumi", *arguments, *common],
            cwd=CHECKOUT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        cost = (time.monotonic() - clock, _children_cpu() - cpu)
        if done.returncode:
            raise RuntimeError(f"pulumi {arguments[0]} failed:\n{done.stdout}")
        self.seen[name].append(cost)
        print(f"  {name}: {cost[0]:.2f} s, {cost[1]:.2f} s of processor time", file=sys.stderr, flush=True)


def imports(rounds: int) -> dict[str, float]:
    """Milliseconds of processor time of a start of the program, and of that by the clock per top-level package."""
    seen: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        cpu = _children_cpu()
        subprocess.run([sys.executable, "-c", STARTED], cwd=CHECKOUT, check=True)
        seen["all, processor time"].append(1000 * (_children_cpu() - cpu))
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", STARTED],
            cwd=CHECKOUT,
            check=True,
            stderr=subprocess.PIPE,
            text=True,
        )
        packages: dict[str, float] = defaultdict(float)
        for line in done.stderr.splitlines()[1:]:
            own, _, module = line.removeprefix("import time:").split("|")
            package = module.strip().partition(".")[0]
            packages["Python's own" if package in sys.stdlib_module_names else package] += int(own) / 1000
        for package, took in packages.items():
            seen[package].append(took)
    medians = {name: statistics.median(took) for name, took in seen.items()}
    return {name: took for name, took in sorted(medians.items(), key=lambda item: -item[1]) if took >= 5}


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks program", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--imports", action="store_true", help="only show what the program imports")
    parser.add_argument("--check", action="store_true", help="exit with 3 when a median misses its target")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    read = imports(options.rounds)
    if options.imports:
        print(json.dumps(read, indent=1) if options.json else _imports_table(read))
        return 0
    try:
        with contextlib.ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="program-")))
            spec = ClusterSpec(name="program", nodes=0, real_nodes=1, kwok=False, state_root=directory)
            bench = Bench(stack.enter_context(LocalCluster(spec)), directory)
            for number in range(options.rounds):
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
                bench.round()
    except (DevClusterError, RuntimeError) as error:
        print(f"benchmarks program: {error}", file=sys.stderr)
        return 1
    measured = bench.figures()
    missed = [name for name, target in TARGETS.items() if measured[name]["seconds"] > target]
    if options.json:
        print(json.dumps({"rounds": options.rounds, "commands": measured, "imports": read, "missed": missed}, indent=1))
    else:
        print(f"{_table(measured)}\n\n{_imports_table(read)}")
    if options.check and missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
        return 3
    return 0


def _table(figures_by_command: Figures) -> str:
    lines = [f"{'':28}{'median':>9}{'longest':>9}{'target':>9}{'processor':>11}"]
    for name, figures in figures_by_command.items():
        target = f"{TARGETS[name]:.0f} s" if name in TARGETS else ""
        clock = f"{figures['seconds']:>7.2f} s{figures['longest']:>7.2f} s"
        lines.append(f"{name:28}{clock}{target:>9}{figures['cpu']:>9.2f} s")
    return "\n".join(lines)


def _imports_table(read: Mapping[str, float]) -> str:
    return "\n".join(["imports, ms", *(f"  {name:24}{took:>7.0f}" for name, took in read.items())])
