"""Runs the demo; stops everything and deletes the state when it fails or is interrupted."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from kubernetes import client as kubernetes, config as kubernetes_config
from rich.console import Console

from devcluster import environment
from devcluster.cluster import LocalCluster
from devcluster.demo import recorded
from devcluster.demo.gang import MEMBERS, DemoGang
from devcluster.demo.moving import LoadMove
from devcluster.demo.pulumi import DemoStack
from devcluster.demo.report import NodeRow, farewell, outputs_table, placement_table
from devcluster.demo.workload import POD_COUNT, DemoWorkload
from devcluster.errors import DevClusterError
from devcluster.inventory import simulated_nodes
from devcluster.load_generator import LoadClient
from devcluster.probes import wait_until
from devcluster.progress import ProgressReporter, reporter
from devcluster.pulumi_stand_ins import KUBERNETES_PROVIDER, LANGUAGE_HOST
from devcluster.services.nodes import require_podman
from devcluster.spec import ClusterSpec
from devcluster.state import Containers

NAME = "demo"
NODES = 20
MOVED = ("sim-000", "sim-003")
"""A hot node and a cold one of the same size."""
MOVE_SECONDS = 90.0
CHECKOUT = Path(__file__).resolve().parents[2]
_CPU_QUERY = "avg_over_time(instance:node_cpu:ratio[1m])"


def main(arguments: Sequence[str] = ()) -> int:
    """Run the demo; exit code 0 when every pod has its node, 1 with one line on stderr otherwise, 2 for bad usage."""
    parser = argparse.ArgumentParser(prog="demo", description="The main job on a local cluster.")
    parser.add_argument(
        "--containers", type=Containers, choices=list(Containers), default=Containers.PROCESSES, help="what pods run as"
    )
    options = parser.parse_args(arguments)
    # In a log there is no screen whose width would matter.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    errors = Console(stderr=True)
    # Both end the demo and all it started, also where the caller's shell had SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    cluster = LocalCluster(ClusterSpec(name=NAME, nodes=NODES, containers=options.containers))
    try:
        if options.containers == Containers.PODMAN:
            # Not after the quarter of an hour that building may take.
            require_podman()
        _build(cluster, console)
    except KeyboardInterrupt:
        message = "demo: interrupted; what is built stays, and `make demo` goes on from there"
        errors.print(message, markup=False, highlight=False, soft_wrap=True)
        return 130
    except DevClusterError as error:
        errors.print(f"demo: {error}", markup=False, highlight=False, soft_wrap=True)
        return 1
    try:
        _run(cluster, console)
    except KeyboardInterrupt:
        _clean_up(cluster, errors, "demo: interrupted; stopping the cluster")
        return 130
    except DevClusterError as error:
        _clean_up(cluster, errors, f"demo: {error}")
        return 1
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _clean_up(cluster: LocalCluster, console: Console, message: str) -> None:
    """Report what happened, and stop the cluster."""
    # A handler that does nothing, where SIG_IGN would be inherited by a process that is being started right now.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    console.print(message, markup=False, highlight=False, soft_wrap=True)
    try:
        cluster.stop()
    except DevClusterError as error:
        console.print(f"demo: {error}", markup=False, highlight=False, soft_wrap=True)
    finally:
        signal.signal(signal.SIGINT, _interrupt)


def _build(cluster: LocalCluster, console: Console) -> None:
    """Build what is missing; until then there is a recording to look at."""
    if cluster.missing_binaries():
        console.rule("0. Until the control plane is built: the same pods on a recorded cluster", align="left")
        recorded.show(console, CHECKOUT)
        with reporter(console) as report:
            cluster.build(report)


def _run(cluster: LocalCluster, console: Console) -> None:
    started = time.monotonic()
    with reporter(console) as report:
        real = (
            "one real one, whose pods are containers"
            if cluster.spec.containers == Containers.PODMAN
            else "one real one"
        )
        report.note(f"1. A local cluster with {NODES} simulated nodes and {real}")
        if not cluster.start(report):
            running = LocalCluster.attach(NAME).spec.containers
            differs = running != cluster.spec.containers
            report.note(
                f"   it is already running, with {running}; for {cluster.spec.containers}, run `make clean-demo` first"
                if differs
                else "   it is already running"
            )
        loads = _wait_for_loads(cluster, report)
    variables = {**os.environ, **environment.variables(cluster.layout, cluster.prometheus_url, os.environ)}
    stack = DemoStack(CHECKOUT, "local", variables)
    console.rule("2. pulumi preview, then pulumi up, on stack local", align="left")
    if any((cluster.layout.bin / name).exists() for name in (LANGUAGE_HOST, KUBERNETES_PROVIDER)):
        console.print("Warnings of plugins from $PATH are about stand-ins: docs/pulumi-stand-ins.md", highlight=False)
    stack.select()
    stack.preview()
    stack.up()
    outputs = stack.outputs()
    console.rule(f"3. The same {POD_COUNT} pods, placed by the default scheduler and by ours", align="left")
    api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
    ours_name: str = outputs["profile"]["schedulerName"]
    ours = DemoWorkload(api, "demo", ours_name)
    with reporter(console) as report:
        # What an earlier run left would take room.
        ours.delete()
        default = DemoWorkload(api, "demo-default", "default-scheduler")
        with report.step("default-scheduler"):
            default.create()
            default.wait_bound(60)
        by_default = default.pods_per_node()
        with report.step("deleting its pods"):
            default.delete()
        with report.step(ours_name):
            ours.create()
            seconds = ours.wait_bound(60)
    sizes = {node.name: node.size.name for node in simulated_nodes(NODES)}
    rows = [NodeRow(name, sizes[name], loads[name]) for name in sizes]
    console.print(placement_table(rows, ours.pods_per_node(), by_default))
    console.print(f"{POD_COUNT} pods bound in {seconds:.1f} s. Event: {ours.scheduled_event()}", highlight=False)
    console.rule("4. The load moves from one node to another, and placements follow", align="left")
    _move_load(cluster, ours_name, api, console)
    console.rule(f"5. A gang of {MEMBERS}, all in one rack", align="left")
    _place_gang(ours_name, api, console)
    console.print(outputs_table(outputs))
    containers = LocalCluster.attach(NAME).spec.containers
    farewell(console, name=NAME, seconds=time.monotonic() - started, containers=containers)


def _move_load(cluster: LocalCluster, scheduler_name: str, api: kubernetes.ApiClient, console: Console) -> None:
    """Exchange the loads of a hot and a cold node of one size, and show where a pod is placed before and after."""
    hot, cold = MOVED
    move = LoadMove(kubernetes.CoreV1Api(api), LoadClient(cluster.load_generator_url), scheduler_name, "default")
    step = f"{hot} cools down, {cold} heats up; waiting for the 1-minute averages (at most a minute)"
    with reporter(console) as report, report.step(step):
        followed = move.watch(hot, cold, MOVE_SECONDS)
    console.print(
        f"A pod that can run on {hot} or {cold} was placed on {followed.before} before the load moved, and on"
        f" {followed.after} {followed.seconds:.0f} s after.",
        highlight=False,
    )


def _place_gang(scheduler_name: str, api: kubernetes.ApiClient, console: Console) -> None:
    """Place a gang that belongs in one rack, and show where its members are."""
    gang = DemoGang(api, "demo-gang", scheduler_name)
    with reporter(console) as report, report.step(f"{MEMBERS} pods of 1 CPU, of a PodGroup that requires one rack"):
        gang.create()
        gang.wait_bound(60)
    racks = {node.name: node.rack for node in simulated_nodes(NODES)}
    members = gang.pods_per_node()
    used = sorted({racks[name] for name in members})
    nodes = ", ".join(f"{number} on {name}" for name, number in sorted(members.items()))
    console.print(
        f"All are in {' and '.join(used)}, the one with least room to spare of {len(set(racks.values()))}: {nodes}.",
        highlight=False,
    )


def _wait_for_loads(cluster: LocalCluster, report: ProgressReporter, seconds: float = 30) -> dict[str, float]:
    """CPU per node as Prometheus has it, once it has it for every simulated node."""
    names = {node.name for node in simulated_nodes(NODES)}
    loads: dict[str, float] = {}

    def complete() -> bool:
        loads.update(cluster.query_prometheus(_CPU_QUERY))
        return names <= loads.keys()

    with report.step("waiting for load data in Prometheus"):
        wait_until(
            complete,
            seconds,
            lambda: (
                f"Prometheus has load data for {len(names & loads.keys())} of {NODES} nodes after {seconds:g} s; "
                f"see: secondary-scheduler cluster logs prometheus --name {NAME}"
            ),
        )
    return loads


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
