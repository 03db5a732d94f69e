"""Runs the demo on the cluster of a kubeconfig, after a yes, and removes all that it created."""

from __future__ import annotations

import argparse
import contextlib
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType

import urllib3
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException
from rich.console import Console

from devcluster.demo.elsewhere.configuration import SCHEDULER_NAME, cluster_objects
from devcluster.demo.elsewhere.running import Check, InCluster, local_process
from devcluster.demo.elsewhere.target import TargetCluster, TargetNode, refusal
from devcluster.demo.elsewhere.workload import (
    NEVER_STARTED,
    DemoLoads,
    MadeUpLoads,
    MeasuredLoads,
    PlacedPods,
    delete_namespace,
)
from devcluster.demo.moving import LoadMove
from devcluster.demo.report import NodeRow, placement_table
from devcluster.errors import ClusterStateError, DevClusterError, ServiceError
from devcluster.probes import wait_until
from devcluster.progress import reporter

_BOUND_SECONDS = 90
_MOVE_SECONDS = 60.0


def main(arguments: Sequence[str]) -> int:
    """Run the demo; exit code 0, 1 with one line on stderr, 2 without a yes, 130 when interrupted."""
    parser = argparse.ArgumentParser(prog="make demo CLUSTER=kubeconfig", allow_abbrev=False)
    parser.add_argument("--kubeconfig", type=Path, help="file (default: as kubectl finds it)")
    parser.add_argument("--context", help="context (default: the current one)")
    parser.add_argument("--image", help="run the scheduler in the cluster, from this image")
    parser.add_argument("--yes", action="store_true", help="do not ask, as in CI")
    options = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=140)
    try:
        target = TargetCluster.of(options.kubeconfig, options.context)
        demo = Demo(target, options.image, console)
        demo.describe()
        if not (options.yes or _agreed(console)):
            print("demo: nothing was done; answer yes, or say YES=1", file=sys.stderr)  # noqa: T201
            return 2
        demo.run()
    except KeyboardInterrupt:
        return _failed("interrupted", 130)
    except DevClusterError as error:
        return _failed(str(error), 1)
    except ApiException as error:
        return _failed(f"context {target.context}: the API server refused {refusal(error)}", 1)
    except urllib3.exceptions.HTTPError as error:
        return _failed(f"context {target.context}: {target.server} does not answer ({type(error).__name__})", 1)
    return 0


def _failed(message: str, code: int) -> int:
    print(f"demo: {message}", file=sys.stderr)  # noqa: T201
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _agreed(console: Console) -> bool:
    try:
        return console.input("Go on? Type yes: ").strip().lower() == "yes"
    except EOFError:
        return False


class Demo:
    """The main job on a cluster that is not ours."""

    def __init__(self, target: TargetCluster, image: str | None, console: Console) -> None:
        self._target, self._console = target, console
        self._name = f"{SCHEDULER_NAME}-{secrets.token_hex(3)}"
        self._image = image
        self._in_cluster = InCluster(target.api, self._name, image) if image else None

    def describe(self) -> None:
        """Say which cluster it is and what will be done to it; nothing is changed. Raises DevClusterError."""
        target = self._target
        version = target.version()
        target.check_rights(in_cluster=self._image is not None)
        self._nodes = target.nodes()
        measured = MeasuredLoads(target.api, self._nodes)
        self._measured = measured if measured.cpu() else None
        if self._image and not self._measured:
            raise ClusterStateError(
                f"context {target.context}: metrics.k8s.io has no load of the nodes, which the scheduler from an image "
                "needs: install the metrics server, or leave IMAGE out"
            )
        beside = f", ClusterRole {self._name} and three ClusterRoleBindings" if self._image else ""
        runs = f"in the cluster, from {self._image}" if self._image else "on this machine (no IMAGE=… was given)"
        load = "as its metrics server measures it" if self._measured else "made up: metrics.k8s.io does not have it"
        for line in (
            f"This will use the cluster of context {target.context}: {target.server}, Kubernetes {version}",
            f"  nodes      {len(self._nodes)} that are ready and take any pod",
            f"  creates    namespace {self._name}{beside}; all are deleted at the end",
            f"  scheduler  {SCHEDULER_NAME}, {runs}",
            f"  load       {load}",
        ):
            self._say(line)
        if len(self._nodes) == 1:
            self._say("  With one node there is nothing to choose: all pods will go there.")

    def run(self) -> None:
        """Do it, and remove everything, also after a failure. Raises DevClusterError, ApiException."""
        api = self._target.api
        with self._removed_at_the_end():
            kubernetes.CoreV1Api(api).create_namespace({"metadata": {"name": self._name}})
            self._wait_for_account()
            made_up = MadeUpLoads(self._nodes)
            serving = contextlib.nullcontext() if self._measured else made_up.served()
            with serving:
                loads: DemoLoads = self._measured or made_up
                with self._scheduler(loads) as check:
                    self._place(loads, check)
                    if not self._measured and len(self._nodes) > 1:
                        self._move(made_up)

    def _scheduler(self, loads: DemoLoads) -> AbstractContextManager[Check]:
        if self._in_cluster:
            self._in_cluster.start(loads)
            return contextlib.nullcontext(self._in_cluster.check)
        return local_process(self._target, loads)

    def _place(self, loads: DemoLoads, check: Check) -> None:
        workload = PlacedPods(self._target.api, self._name, len(self._nodes))
        cpu = loads.cpu()
        self._console.rule(f"The same {workload.count} pods, placed by the default scheduler and by ours", align="left")
        with reporter(self._console) as report:
            with report.step("default-scheduler"):
                by_default = workload.place("default-scheduler", _BOUND_SECONDS)
            with report.step("deleting its pods"):
                workload.remove("default-scheduler")
            with report.step(SCHEDULER_NAME):
                ours = workload.place(SCHEDULER_NAME, _BOUND_SECONDS, check)
        self._console.print(placement_table([_row(node, cpu) for node in self._nodes], ours, by_default))
        self._say(f"Event: {workload.event(SCHEDULER_NAME)}")

    def _move(self, loads: MadeUpLoads) -> None:
        hot, cold = self._nodes[0].name, self._nodes[1].name
        core = kubernetes.CoreV1Api(self._target.api)
        move = LoadMove(core, loads, SCHEDULER_NAME, self._name, NEVER_STARTED)
        self._console.rule("The load moves from one node to another, and placements follow", align="left")
        with reporter(self._console) as report, report.step(f"{hot} cools down, {cold} heats up"):
            followed = move.watch(hot, cold, _MOVE_SECONDS)
        self._say(
            f"A pod that can run on {hot} or {cold} was placed on {followed.before} before the load moved, and on"
            f" {followed.after} {followed.seconds:.0f} s after."
        )

    def _wait_for_account(self, seconds: float = 30) -> None:
        """Pods are refused until the namespace has its ServiceAccount."""
        core, name = kubernetes.CoreV1Api(self._target.api), self._name

        def exists() -> bool:
            return bool(core.list_namespaced_service_account(name, field_selector="metadata.name=default").items)

        wait_until(exists, seconds, lambda: f"namespace {name} has no ServiceAccount after {seconds:g} s")

    @contextlib.contextmanager
    def _removed_at_the_end(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            # Another Ctrl-C must not leave anything behind.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, frame: None)
            try:
                with reporter(self._console) as report, report.step(f"deleting namespace {self._name}"):
                    if self._in_cluster:
                        self._in_cluster.remove()
                    delete_namespace(self._target.api, self._name)
                    text = f"The demo took {time.monotonic() - began:.0f} s. Nothing of it is left."
            except (ServiceError, ApiException, urllib3.exceptions.HTTPError):
                text = f"Something of the demo is left; delete it by hand: {self._by_hand()}"
            self._say(text)

    def _by_hand(self) -> str:
        kubeconfig = ["--kubeconfig", str(self._target.kubeconfig)] if self._target.kubeconfig else []
        objects = [f"namespace/{self._name}"]
        if self._in_cluster:
            roles, bindings = cluster_objects(self._name)
            objects += [f"clusterrole/{role['metadata']['name']}" for role in roles]
            objects += [f"clusterrolebinding/{binding['metadata']['name']}" for binding in bindings]
        return shlex.join(["kubectl", *kubeconfig, "--context", self._target.context, "delete", *objects])

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _row(node: TargetNode, cpu: dict[str, float]) -> NodeRow:
    return NodeRow(node.name, f"{node.cpu / 1000:g} CPU", cpu[node.name])


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    sys.exit(main(sys.argv[1:]))
