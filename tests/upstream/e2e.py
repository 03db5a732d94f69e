"""Runs the specs `[sig-scheduling]` of Kubernetes' e2e tests with our scheduler in place of kube-scheduler.

    python -m tests.upstream.e2e
    python -m tests.upstream.e2e --test 'SchedulerPreemption.*basic' --mode upstream --logs DIRECTORY

A local control plane has simulated nodes and no scheduler: each run of a spec starts one, and ends it. A run that is
recorded already is not repeated, unless --again asks for it. Exit code: 0 when ours passes what kube-scheduler passes,
1 if not, 2 on wrong usage, 130 when it was interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import inventory, ports, processes, releases
from devcluster.api import AdminClient
from devcluster.cluster import LocalCluster
from devcluster.ports import LOOPBACK
from devcluster.probes import https_ok
from devcluster.processes import ServiceProcess
from devcluster.progress import ProgressReporter
from devcluster.spec import ClusterSpec
from devcluster.toolchain import binaries
from tests.upstream import page
from tests.upstream.command import add_mode, add_options, carry_out, judge, pattern
from tests.upstream.results import Results
from tests.upstream.running import CHECKOUT, TEST_SECONDS, Run, Side, printed
from tests.upstream.source import Package, Source
from tests.upstream.suites import suite_of
from tests.upstream.unrunnable import SPECS

PACKAGE = "e2e"
GROUP = "[sig-scheduling] "
"""What the specs' names begin with."""
NODES = 6
"""Of three sizes, in two zones."""

TRIES = 2


@dataclass(frozen=True)
class SpecCluster:
    """What a spec runs on: a control plane without a scheduler."""

    cluster: LocalCluster
    package: Package
    kube_scheduler: Path


def specs(package: Package) -> list[str]:
    """The specs of the group, without its name."""
    with tempfile.TemporaryDirectory(prefix="upstream-") as directory:
        reports = _reports(package, ["--ginkgo.dry-run", f"--ginkgo.focus={re.escape(GROUP)}"], Path(directory))
    return sorted(_name(spec) for spec in reports if spec["State"] == "passed" and _name(spec))


def run(stage: SpecCluster, spec: str, side: Side, logs: Path) -> Run:
    """Run a spec with one of the schedulers; `logs` is a directory for what both print."""
    began = time.monotonic()
    with _scheduler(stage, side, logs):
        flags = [f"--kubeconfig={stage.cluster.kubeconfig}", "--dump-logs-on-failure=false"]
        flags += [f"--ginkgo.focus={re.escape(GROUP + spec)}", f"--ginkgo.timeout={TEST_SECONDS}s"]
        result = outcome(_reports(stage.package, flags, logs), spec)
    result.started = int(side is not Side.GO)
    result.seconds = time.monotonic() - began
    return result


def outcome(reports: Sequence[Mapping[str, Any]], spec: str) -> Run:
    """Read a spec's outcome of ginkgo's report; no word of it is a failure."""
    states = {report["State"] for report in reports if _name(report) == spec}
    if states == {"passed"}:
        return Run(passed=1)
    # A failure before all specs leaves them skipped.
    failed = any(report["State"] not in ("passed", "skipped") for report in reports)
    return Run(skipped=1) if states == {"skipped"} and not failed else Run(failed=[spec])


def _name(report: Mapping[str, Any]) -> str:
    """The name of a spec of the group; "" for another, and for what is none."""
    text = " ".join([*(report["ContainerHierarchyTexts"] or ()), report["LeafNodeText"]])
    return text.removeprefix(GROUP) if text.startswith(GROUP) else ""


def _reports(package: Package, flags: Sequence[str], logs: Path) -> list[Mapping[str, Any]]:
    file = logs / "report.json"
    command = [str(package.binary), *flags, "--provider=skeleton", "--ginkgo.no-color", f"--ginkgo.json-report={file}"]
    # It writes files where it runs.
    output = printed(command, logs, package.environment, TEST_SECONDS + 60)
    (logs / "test.log").write_text(output)
    suites = json.loads(file.read_text()) if file.exists() else []
    return [report for suite in suites for report in suite["SpecReports"] or ()]


@contextlib.contextmanager
def _scheduler(stage: SpecCluster, side: Side, logs: Path) -> Iterator[None]:
    """Run kube-scheduler, or ours in its place, for the pods of the default scheduler."""
    (logs / "logs").mkdir(parents=True, exist_ok=True)
    kubeconfig, port = stage.cluster.kubeconfig, ports.allocate(["scheduler"], {})["scheduler"]
    profile: dict[str, Any] = {"schedulerName": "default-scheduler"}
    command = [str(stage.kube_scheduler)]
    if side is not Side.GO:
        command = [sys.executable, "-m", "scheduler", "--allow-default-scheduler-name"]
        options = {"compatibility": side.value, "kubernetesVersion": stage.package.minor}
        profile["pluginConfig"] = [{"name": "SecondarySchedulerOptions", "args": options}]
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [profile],
    }
    (logs / "config.json").write_text(json.dumps(configuration))
    command += [f"--config={logs / 'config.json'}", f"--bind-address={LOOPBACK}", f"--secure-port={port}", "-v=4"]
    command += [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]
    environment = {"PYTHONPATH": str(CHECKOUT)}
    ready = https_ok(port, "/readyz", None)
    service = ServiceProcess("scheduler", command, ports=[port], env=environment, ready=ready)
    record = processes.start(service, logs)
    try:
        processes.wait_ready(service, record)
        yield
    finally:
        processes.stop([record])


@contextlib.contextmanager
def _stage(package: Package, report: ProgressReporter) -> Iterator[SpecCluster]:
    kube_scheduler = binaries.ensure(["kube-scheduler"], report)["kube-scheduler"]
    with tempfile.TemporaryDirectory(prefix="upstream-") as root:
        spec = ClusterSpec(
            name="upstream-e2e",
            kubernetes=package.minor,
            nodes=0,
            real_nodes=0,
            prometheus=False,
            default_scheduler=False,
            tools=False,
            state_root=Path(root),
        )
        with LocalCluster(spec) as cluster:
            with contextlib.closing(AdminClient(cluster.kubeconfig)) as api:
                for node in inventory.simulated_nodes(NODES):
                    # Without the taint: the specs' pods tolerate none.
                    api.create("/api/v1/nodes", {**inventory.manifest(node), "spec": {}})
            yield SpecCluster(cluster, package, kube_scheduler)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.upstream.e2e", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--test", type=pattern, default="", metavar="PATTERN", help="only specs whose name matches")
    add_mode(parser)
    add_options(parser, ".upstream-e2e.json")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, report: ProgressReporter, results: Results, logs: Path) -> None:
    """Run what is chosen and not recorded."""
    source = Source(suite_of("e2e", releases.release_of(releases.DEFAULT)), report)
    source.build([PACKAGE])
    package = source.package(PACKAGE)
    judged = [spec for spec in specs(package) if not any(re.fullmatch(left_out, spec) for left_out in SPECS)]
    results.know(package.minor, PACKAGE, judged)
    chosen = [spec for spec in judged if options.test.search(spec)]
    with _stage(package, report) as stage:
        for spec in chosen:
            for side in (Side.GO, *options.mode):
                if not options.again and results.has(package.minor, PACKAGE, spec, side):
                    continue
                place = logs / re.sub(r"\W+", "-", spec) / side
                with report.step(f"{spec}, {side}", announce=True):
                    # kwok deletes by name: at times a pod that was created just after another of its name had gone.
                    for _ in range(TRIES):
                        result = run(stage, spec, side, place)
                        if not result.failed:
                            break
                results.add(package.minor, PACKAGE, spec, side, result)
                if result.failed:
                    report.note(f"  failed: {place}")


def main(arguments: list[str]) -> int:
    """Do what the command line asks for."""
    options = _parse(arguments)
    results = Results(options.record)
    if code := carry_out(lambda report, logs: _run(options, report, results, logs), options.logs):
        return code
    print(page.table(results, releases.DEFAULT, [PACKAGE]))
    return judge(results, releases.DEFAULT, [PACKAGE], options.mode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
