"""The command `simulate` once its options are read: files in, decisions out.

Apart from the command itself, because importing this takes longer than reading the command line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import typer

from scheduler.config import Configuration, ConfigurationError, load_configuration
from scheduler.engine import Assembly, assemble
from scheduler.framework import STOPPED_CLOCKS, Clocks, LoadReading, RandomSource, WallSeconds, configured_extenders
from scheduler.state import ClusterState
from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.importing import importing
from secondary_scheduler.cli.reading import read_text
from secondary_scheduler.cli.simulate import output as forms
from secondary_scheduler.cli.simulate.cluster import SimulatedCluster, read_cluster
from secondary_scheduler.cli.simulate.deciding import Outcome, Simulation
from secondary_scheduler.cli.simulate.documents import read_objects
from secondary_scheduler.cli.simulate.options import Detail, Request, ResultFormat
from secondary_scheduler.cli.simulate.recording import read_recording
from secondary_scheduler.cli.simulate.remarks import remarks
from secondary_scheduler.cli.simulate.report import Report
from secondary_scheduler.cli.simulate.watcherload import read_load


def run(request: Request) -> bool:
    """Decide and write; false when the snapshot holds an invalid object, which is reported on stderr."""
    report = Report(lambda text: typer.echo(text, err=True))
    text = read_text(request.config, option="--config")
    _decide(request, text, report)
    report.close()
    return not report.invalid


def _decide(request: Request, text: str, report: Report) -> None:
    configuration = _configuration(request.config, text, report)
    output, detail = request.output, request.detail
    clock = _SnapshotClock()
    taken_over = _taken_over(request.as_scheduler, configuration)
    measured = read_load(read_objects(request.load), request.load, report) if request.load is not None else None
    cluster = read_cluster(
        request.files,
        report,
        taken_over=taken_over,
        scheduler_names=configuration.scheduler_names,
        pod_file=request.pod,
    )
    if cluster.minor is not None:
        # Which plugins run by default depends on the version, which only the snapshot knows.
        configuration = _configuration(request.config, text, report, cluster.minor)
    _tell_version(configuration, report)
    assembly = _assembled(configuration, clock, request.rng, cluster.state)
    measured = measured or cluster.load
    matched = _set_load(cluster, configuration, measured) if measured is not None else None
    clock.seconds = request.now if request.now is not None else _now(measured, cluster.newest)
    for text in remarks(cluster, configuration, matched, clock.seconds):
        report.warn(text)
    simulation = Simulation(
        assembly.attempts,
        explained=detail != "none" if output in (ResultFormat.JSON, ResultFormat.YAML) else output is ResultFormat.WIDE,
        preempt=request.preempt,
        extenders=configured_extenders(configuration.model.extenders),
        recorded=read_recording(request.extender_recording, report) if request.extender_recording else None,
    )
    outcomes = _outcomes(simulation, cluster)
    if request.namespace is not None:
        outcomes = _of_namespace(outcomes, request.namespace, report)
    _write(outcomes, output, detail, sys.stdout.buffer)


def _outcomes(simulation: Simulation, cluster: SimulatedCluster) -> Iterator[Outcome]:
    yield from simulation.run(cluster.pending)
    for pod in cluster.undecidable:
        yield Outcome(pod.key, pod.scheduler_name, None, pod.reason)


def _of_namespace(outcomes: Iterator[Outcome], namespace: str, report: Report) -> Iterator[Outcome]:
    """The pods of a namespace. All are decided: those of others take room, too."""
    shown = 0
    for outcome in outcomes:
        if outcome.pod.startswith(f"{namespace}/"):
            shown += 1
            yield outcome
    if not shown:
        report.warn(f"--namespace {namespace}: no pod of this namespace is decided")


def _write(outcomes: Iterator[Outcome], output: ResultFormat, detail: Detail, out: IO[bytes]) -> None:
    if output is ResultFormat.JSON:
        forms.write_json(outcomes, out, detail)
    elif output is ResultFormat.YAML:
        forms.write_yaml(outcomes, out, detail)
    else:
        forms.write_table(outcomes, out, wide=output is ResultFormat.WIDE)


def _tell_version(configuration: Configuration, report: Report) -> None:
    """Say which version of kube-scheduler decides, and why that."""
    for profile in configuration.profiles:
        if profile.options.kubernetes_version is not None:
            origin = "its kubernetesVersion"
        elif configuration.cluster_minor is not None:
            origin = "the cluster's version"
        else:
            origin = "the default, as the snapshot names no version"
        report.note(f"{profile.scheduler_name} decides as kube-scheduler {profile.kubernetes.name}: {origin}")


def _configuration(path: Path, text: str, report: Report, minor: int | None = None) -> Configuration:
    if path.name.startswith("Pulumi.") or "kind: ConfigMap" in text:
        return _embedded_configuration(path, text, report, minor)
    try:
        configuration = load_configuration(
            text,
            source=str(path),
            allow_token_in_config_map=True,
            allow_default_scheduler_name=True,
            external_load=True,
            cluster_minor=minor,
        )
    except ConfigurationError as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        raise typer.Exit(ExitCode.INVALID_INPUT) from error
    for warning in configuration.warnings if minor is None else ():
        report.warn(f"warning: {warning}")
    return configuration


def _embedded_configuration(path: Path, text: str, report: Report, minor: int | None) -> Configuration:
    """The configuration that a ConfigMap holds, or that follows from a stack file."""
    # Here, not above: most runs need neither.
    from secondary_scheduler.cli.checking import check_file

    results = list(check_file(path, text, None, allow_token=True, cluster_minor=minor))
    for problem in (problem for result in results for problem in result.problems):
        if problem.severity == "error":
            typer.echo(str(problem), err=True)
        elif minor is None:
            report.warn(f"warning: {problem}")
    if not all(result.valid for result in results):
        raise typer.Exit(ExitCode.INVALID_INPUT)
    valid = [result.configuration for result in results if result.configuration is not None]
    if len(valid) != 1:
        raise CommandError(f"--config {path}: holds {len(valid)} configurations; give one", ExitCode.INVALID_INPUT)
    return valid[0]


def _taken_over(options: list[str], configuration: Configuration) -> dict[str, str]:
    """Other schedulers, each with the profile that decides about its pods."""
    profiles = configuration.scheduler_names
    taken_over = {}
    for option in options:
        name, equals, profile = option.partition("=")
        if not equals and len(profiles) > 1:
            known = ", ".join(profiles)
            raise CommandError(
                f"--as-scheduler {name}: the configuration has several profiles ({known}); name one: "
                f"--as-scheduler {name}={profiles[0]}",
                ExitCode.USAGE,
            )
        profile = profile if equals else profiles[0]
        if profile not in profiles:
            raise CommandError(
                f"--as-scheduler {option}: the configuration has no profile {profile}; it has {', '.join(profiles)}",
                ExitCode.USAGE,
            )
        taken_over[name] = profile
    return taken_over


class _SnapshotClock:
    """The clock of a simulation. It stands still; its time is set once the files are read, as it may come from them."""

    seconds = 0.0

    def wall(self) -> WallSeconds:
        return WallSeconds(self.seconds)


def _assembled(configuration: Configuration, clock: _SnapshotClock, rng: RandomSource, state: ClusterState) -> Assembly:
    try:
        with importing():
            return assemble(configuration, clocks=Clocks(clock.wall, STOPPED_CLOCKS.monotonic), rng=rng, state=state)
    except ValueError as error:
        raise CommandError(f"{configuration.source}: {error}", ExitCode.INVALID_INPUT) from error


def _set_load(cluster: SimulatedCluster, configuration: Configuration, measured: LoadReading) -> LoadReading:
    """Give this load to every plugin that reads one, whatever source its args name; returns it by name of node."""
    # Imported here: most simulations read no load.
    from scheduler.load import match_nodes, nodes_by_address

    nodes = filter(None, map(cluster.state.node, cluster.state.node_names))
    matched, _ = match_nodes(measured, nodes_by_address((node.name, node.addresses) for node in nodes).get)
    arguments = (profile.args(name) for profile in configuration.profiles for name in profile.enabled)
    keys = {args.source_key() for args in arguments if args is not None}
    for source in sorted(key for key in keys if key is not None):
        cluster.state.set_load(replace(matched, source=source))
    return matched


def _now(measured: LoadReading | None, newest: float) -> float:
    if measured is not None and measured.window_end:
        return measured.window_end
    return 0.0 if math.isnan(newest) else newest
