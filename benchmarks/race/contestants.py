"""The contestants: our scheduler, the scenario's Go scheduler, and the null binder. All get one configuration file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.race import cluster as servers
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.scenario import SCHEDULER_NAME, Json, Profile
from devcluster import ports, processes
from devcluster.ports import LOOPBACK
from devcluster.processes import ProcessRecord, ServiceProcess

OURS, PEER, NULL = "ours", "peer", "null"
ROOT = Path(__file__).resolve().parent.parent.parent
QPS, BURST = 5000, 10000
_OPEN = "/healthz,/readyz,/livez,/metrics"
_VERBOSITY = "2"
"""What the operator passes at its normal log level."""


@dataclass(frozen=True)
class Contestant:
    """One process under test."""

    role: str
    process: ProcessRecord
    port: int
    """Where it serves /livez; 0 for the null binder."""


def configuration(wanted: Profile, kubeconfig: Path, watcher: str) -> Json:
    """The configuration of all contestants."""
    profile: Json = {"schedulerName": SCHEDULER_NAME}
    if wanted.plugins:
        profile["plugins"] = wanted.plugins
    if wanted.plugin_config:
        profile["pluginConfig"] = json.loads(json.dumps(wanted.plugin_config).replace("$watcher", watcher))
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": BURST},
        **wanted.extra,
        "profiles": [profile],
    }


def start(
    role: str,
    wanted: Profile,
    cluster: RaceCluster,
    binaries: dict[str, Path],
    watcher: str,
    root: Path = ROOT,
    params: Mapping[str, int] = MappingProxyType({}),
) -> Contestant:
    """Start a contestant of a role (OURS, PEER, NULL) on the cluster, without waiting until it works.

    `binaries` are the Go schedulers by name, `watcher` is the URL of the fake load-watcher, `root` the checkout that
    our scheduler is started from, `params` are the workload's: `victims` of each pod, and whether the null binder is
    `bare`.
    """
    layout = cluster.layout
    file = layout.config("race.json")
    file.write_text(json.dumps(configuration(wanted, layout.kubeconfig, watcher)))
    # What is not counted writes byte code for what is, also where the caller's environment forbids it: an image has it.
    environment = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": ""}
    if role == NULL:
        argv = [sys.executable, "-m", "benchmarks.race.nullbinder", str(layout.kubeconfig)]
        argv += [f"--victims={params.get('victims', 0)}", *(["--bare"] if params.get("bare") else [])]
        return Contestant(role, processes.start(ServiceProcess(role, argv, env=environment), layout.root), 0)
    port = ports.allocate([role], {})[role]
    argv = [f"--config={file}", f"--bind-address={LOOPBACK}", f"--secure-port={port}", f"-v={_VERBOSITY}"]
    if role == OURS:
        argv = [interpreter(root), "-m", "scheduler", *argv]
    else:
        rights = (f"--{purpose}-kubeconfig={layout.kubeconfig}" for purpose in ("authentication", "authorization"))
        argv = [str(binaries[wanted.peer]), *argv, *rights, f"--authorization-always-allow-paths={_OPEN}"]
    service = ServiceProcess(role, argv, ports=[port], env=environment)
    return Contestant(role, processes.start(service, layout.root), port)


def add_checkouts(parser: argparse.ArgumentParser) -> None:
    """Add `--before`, which names checkouts to compare ours with."""
    parser.add_argument(
        "--before", type=Path, action="append", default=[], metavar="CHECKOUT", help="another checkout; may be repeated"
    )


def checkouts(parser: argparse.ArgumentParser, before: Sequence[Path]) -> dict[str, Path]:
    """Return ours and those of `--before`, by name; ends the process where two have one name."""
    roots = {OURS: ROOT, **{path.resolve().name: path.resolve() for path in before}}
    if len(roots) <= len(before):
        parser.error(f"--before: the directories need names that differ, also from {OURS}")
    return roots


def interpreter(root: Path) -> str:
    """Return the Python of a checkout's own environment, so that interpreters and packages can be compared, too; this
    process' where it has none."""
    own = root / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def stop(contestant: Contestant) -> None:
    """End it."""
    processes.stop([contestant.process])


def require_alive(contestant: Contestant) -> None:
    """Raise RuntimeError with the end of its log when it has ended."""
    servers.require_alive(contestant.process)
