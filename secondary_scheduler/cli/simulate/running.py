"""The command `simulate` once its options are read: files in, decisions out.

Apart from the command itself, because importing this takes longer than reading the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO

import typer

from secondary_scheduler.cli.chosenconfiguration import chosen_configuration
from secondary_scheduler.cli.output import FullOutputFormat
from secondary_scheduler.cli.simulate import output as forms
from secondary_scheduler.cli.simulate.options import Detail, Request
from secondary_scheduler.simulation.cluster import PodSelection, SimulatedCluster
from secondary_scheduler.simulation.configured import taken_over
from secondary_scheduler.simulation.deciding import Outcome, Simulation, all_explained, none_explained
from secondary_scheduler.simulation.documents import read_objects
from secondary_scheduler.simulation.objects import read_recorded
from secondary_scheduler.simulation.recording import read_recording
from secondary_scheduler.simulation.report import Report
from secondary_scheduler.simulation.settingup import Conditions, set_up
from secondary_scheduler.simulation.watcherload import read_load


def run(request: Request) -> bool:
    """Decide and write; false when the snapshot holds an invalid object, which is reported on stderr."""
    report = Report(lambda text: typer.echo(text, err=True))
    _decide(request, report)
    report.close()
    return not report.invalid


def _decide(request: Request, report: Report) -> None:
    objects = read_recorded(request.files, report, pod_file=request.pod)
    configuration = chosen_configuration("--config", request.config, request.place, objects, report)
    selection = PodSelection(configuration.scheduler_names, taken_over(request.as_scheduler, configuration))
    measured = read_load(read_objects(request.load), request.load, report) if request.load is not None else None
    recorded = read_recording(request.extender_recording, report) if request.extender_recording else None
    conditions = Conditions(request.seed, request.now, measured, recorded)
    ready = set_up(configuration, selection, objects, conditions, report)
    simulation = ready.simulation(all_explained if _shows_matrix(request) else none_explained, preempt=request.preempt)
    outcomes = _outcomes(simulation, ready.cluster)
    if request.namespace is not None:
        outcomes = _of_namespace(outcomes, request.namespace, report)
    _write(outcomes, request.output, request.detail, sys.stdout.buffer)


def _shows_matrix(request: Request) -> bool:
    if request.output.is_document:
        return request.detail != "none"
    return request.output is FullOutputFormat.WIDE


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


def _write(outcomes: Iterator[Outcome], output: FullOutputFormat, detail: Detail, out: IO[bytes]) -> None:
    if output is FullOutputFormat.JSON:
        forms.write_json(outcomes, out, detail)
    elif output is FullOutputFormat.YAML:
        forms.write_yaml(outcomes, out, detail)
    else:
        forms.write_table(outcomes, out, wide=output is FullOutputFormat.WIDE)
