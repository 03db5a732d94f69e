"""`secondary-scheduler simulate`: the scheduling core on a snapshot in files, without a cluster."""

from __future__ import annotations

import enum
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from scheduler.config import Configuration
    from scheduler.framework import ProfileRunner
    from secondary_scheduler.cli.simulation.cluster import SimulatedCluster
    from secondary_scheduler.cli.simulation.deciding import Outcome, Simulation
    from secondary_scheduler.cli.simulation.output import Detail
    from secondary_scheduler.cli.simulation.report import Report
    from secondary_scheduler.cli.simulation.watcherload import MeasuredLoad


class Output(enum.StrEnum):
    """How decisions are written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def register(parent: typer.Typer) -> None:
    """Add the command `simulate`."""
    parent.command("simulate")(simulate)


def simulate(
    config: Annotated[Path, typer.Option("--config", help="KubeSchedulerConfiguration to decide by.")],
    snapshot: Annotated[
        list[str], typer.Option("--snapshot", help="Kubernetes objects in YAML or JSON; more than once, - for stdin.")
    ],
    more: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="More files of the snapshot.")] = None,
    load: Annotated[
        str | None, typer.Option("--load", help="Measured load: the JSON that load-watcher serves at /watcher.")
    ] = None,
    pod: Annotated[str | None, typer.Option("--pod", help="One more pod to decide about.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the choice among equally good nodes.")] = 0,
    now: Annotated[
        str | None,
        typer.Option(
            "--now",
            help="Time of the decisions, RFC 3339 or seconds since 1970; else the end of the load's window, else the "
            "newest time in the snapshot.",
        ),
    ] = None,
    detail: Annotated[
        str, typer.Option("--detail", help="Nodes shown per pod: full, none, or top:K for the best K.")
    ] = "full",
    preempt: Annotated[
        bool, typer.Option("--preempt", help="Carry preemption out: remove the victims and place the pod.")
    ] = False,
    output: Annotated[Output, typer.Option("-o", "--output", help="Form of the output.")] = Output.TABLE,
) -> None:
    """Decide about the pending pods of a snapshot, in queue order, each seeing the earlier ones placed.

    What cannot be used of the snapshot is said on stderr; exit code 4 means that something was no valid object.
    """
    shown = _detail(detail)
    moment = _moment(now) if now is not None else None
    # Here, not above: reading them takes longer than all the rest of the command line.
    from secondary_scheduler.cli.simulation.report import Report

    report = Report(lambda text: typer.echo(text, err=True))
    configuration = _configuration(config, report)
    files = [*snapshot, *(more or ())]
    request = _Request(configuration, files, load, pod, random.Random(seed), moment, shown, preempt, output)
    _run(request, report)
    report.close()
    if report.invalid:
        raise typer.Exit(ExitCode.INVALID_INPUT)


@dataclass(frozen=True, slots=True)
class _Request:
    """What was asked for, read and checked."""

    configuration: Configuration
    files: list[str]
    load: str | None
    pod: str | None
    rng: random.Random
    now: float | None
    detail: Detail
    preempt: bool
    output: Output


def _run(request: _Request, report: Report) -> None:
    from secondary_scheduler.cli.simulation.cluster import read_cluster
    from secondary_scheduler.cli.simulation.deciding import Simulation
    from secondary_scheduler.cli.simulation.documents import read_bytes
    from secondary_scheduler.cli.simulation.watcherload import read_load

    configuration, output, detail = request.configuration, request.output, request.detail
    runners = _runners(configuration)
    measured = read_load(read_bytes(request.load), request.load, report) if request.load is not None else None
    cluster = read_cluster(request.files, report, scheduler_names=configuration.scheduler_names, pod_file=request.pod)
    measured = measured or cluster.load
    if measured is not None:
        _set_load(cluster, configuration, measured)
    simulation = Simulation(
        cluster.state,
        runners,
        rng=request.rng,
        now=request.now if request.now is not None else _now(measured, cluster.newest),
        explained=detail != "none" if output in (Output.JSON, Output.YAML) else output is Output.WIDE,
        preempt=request.preempt,
    )
    _write(_outcomes(simulation, cluster), output, detail, sys.stdout.buffer)


def _outcomes(simulation: Simulation, cluster: SimulatedCluster) -> Iterator[Outcome]:
    from secondary_scheduler.cli.simulation.deciding import Outcome

    yield from simulation.run(cluster.pending)
    for parked in cluster.parked:
        yield Outcome(parked.key, parked.scheduler_name, None, parked.reason)


def _write(outcomes: Iterator[Outcome], output: Output, detail: Detail, out: IO[bytes]) -> None:
    from secondary_scheduler.cli.simulation import output as forms

    if output is Output.JSON:
        forms.write_json(outcomes, out, detail)
    elif output is Output.YAML:
        forms.write_yaml(outcomes, out, detail)
    else:
        forms.write_table(outcomes, out, wide=output is Output.WIDE)


def _configuration(path: Path, report: Report) -> Configuration:
    from scheduler.config import ConfigurationError, load_configuration

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--config {path}: {error.strerror or error}", ExitCode.INVALID_INPUT) from error
    except UnicodeDecodeError as error:
        message = f"--config {path}: not UTF-8 text ({error.reason} at byte {error.start})"
        raise CommandError(message, ExitCode.INVALID_INPUT) from error
    try:
        configuration = load_configuration(
            text,
            source=str(path),
            allow_token_in_config_map=True,
            allow_default_scheduler_name=True,
            load_given=True,
        )
    except ConfigurationError as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        raise typer.Exit(ExitCode.INVALID_INPUT) from error
    for warning in configuration.warnings:
        report.warn(f"warning: {warning}")
    return configuration


def _runners(configuration: Configuration) -> dict[str, ProfileRunner]:
    from scheduler.plugins import build_profile

    try:
        return {profile.scheduler_name: build_profile(profile) for profile in configuration.profiles}
    except ValueError as error:
        raise CommandError(f"{configuration.source}: {error}", ExitCode.INVALID_INPUT) from error


def _set_load(cluster: SimulatedCluster, configuration: Configuration, measured: MeasuredLoad) -> None:
    """Every plugin that reads a load gets this one, wherever it is told to fetch it from."""
    from scheduler.catalog import TrimaranArgs

    arguments = (profile.args(name) for profile in configuration.profiles for name in profile.enabled)
    for source in sorted({args.source_key() for args in arguments if isinstance(args, TrimaranArgs)}):
        cluster.state.set_load(measured.table(source))


def _now(measured: MeasuredLoad | None, newest: float) -> float:
    if measured is not None and measured.window_end:
        return measured.window_end
    return 0.0 if math.isnan(newest) else newest


def _detail(text: str) -> Detail:
    if text == "full":
        return "full"
    if text == "none":
        return "none"
    count = text.removeprefix("top:")
    if count != text and count.isascii() and count.isdigit() and int(count[:9]) > 0:
        return int(count[:9])
    raise CommandError(f"--detail {text}: it is full, none, or top:K with K from 1", ExitCode.USAGE)


def _moment(text: str) -> float:
    from secondary_scheduler.kube.primitives.timestamps import TimestampError, epoch_seconds

    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(seconds):
            return seconds
    try:
        return epoch_seconds(text)
    except TimestampError as error:
        raise CommandError(f"--now: {error}, nor seconds since 1970", ExitCode.USAGE) from error
