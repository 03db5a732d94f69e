"""The command `simulate` once its options are read: files in, decisions out.

Apart from the command itself, because importing this takes longer than reading the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import IO

import msgspec
import typer

from scheduler.answers import API_VERSION, MatrixNode, SimulatedDecision
from secondary_scheduler.cli.configurations import chosen_configuration, conditions_of, selection_of
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import FullOutputFormat, aligned
from secondary_scheduler.cli.simulate.options import Detail, SimulateOptions
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.simulation.cluster import SimulatedCluster
from secondary_scheduler.simulation.deciding import PodOutcome, Simulation, all_explained, none_explained
from secondary_scheduler.simulation.objects import read_recorded
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.simulation.settingup import set_up


def run(request: SnapshotRequest, options: SimulateOptions) -> bool:
    """Decide and write; false when the snapshot holds an invalid object, which is reported on stderr."""
    report = InputReport(lambda text: typer.echo(text, err=True))
    _decide(request, options, report)
    report.close()
    return not report.invalid


def _decide(request: SnapshotRequest, options: SimulateOptions, report: InputReport) -> None:
    objects = read_recorded(request.files, report, pod_file=options.pod)
    configuration = chosen_configuration("--config", request.config, request.place, objects, report)
    selection, conditions = selection_of(request, configuration), conditions_of(request, report)
    ready = set_up(configuration, selection, objects, conditions, report)
    simulation = ready.simulation(all_explained if _shows_matrix(options) else none_explained, preempt=options.preempt)
    outcomes = _outcomes(simulation, ready.cluster)
    if options.namespace is not None:
        outcomes = _of_namespace(outcomes, options.namespace, report)
    _write(outcomes, options.output, options.detail, sys.stdout.buffer)


def _shows_matrix(options: SimulateOptions) -> bool:
    if options.output.is_document:
        return options.detail != "none"
    return options.output is FullOutputFormat.WIDE


def _outcomes(simulation: Simulation, cluster: SimulatedCluster) -> Iterator[PodOutcome]:
    yield from simulation.run(cluster.pending)
    for pod in cluster.undecidable:
        yield PodOutcome(pod.key, pod.scheduler_name, None, pod.reason)


def _of_namespace(outcomes: Iterator[PodOutcome], namespace: str, report: InputReport) -> Iterator[PodOutcome]:
    """The pods of a namespace. All are decided: those of others take room, too."""
    count = 0
    for outcome in outcomes:
        if outcome.pod.startswith(f"{namespace}/"):
            count += 1
            yield outcome
    if not count:
        report.warn(f"--namespace {namespace}: no pod of this namespace is decided")


def _write(outcomes: Iterator[PodOutcome], output: FullOutputFormat, detail: Detail, out: IO[bytes]) -> None:
    if output is FullOutputFormat.JSON:
        write_json(outcomes, out, detail)
    elif output is FullOutputFormat.YAML:
        write_yaml(outcomes, out, detail)
    else:
        write_table(outcomes, out, wide=output is FullOutputFormat.WIDE)


KIND = "SimulationResult"
_CHUNK = 1 << 16
_encode = msgspec.json.Encoder().encode


def write_json(outcomes: Iterable[PodOutcome], out: IO[bytes], detail: Detail) -> None:
    """Write the result; one decision per line."""
    out.write(b'{"apiVersion":' + _encode(API_VERSION) + b',"kind":' + _encode(KIND) + b',"decisions":[')
    separator = b"\n"
    for outcome in outcomes:
        buffer = bytearray(separator)
        # Without its closing brace: the nodes follow one by one.
        buffer += _encode(_decision(outcome))[:-1]
        buffer += b',"nodes":{'
        comma = b""
        for name, node in _nodes(outcome, detail):
            buffer += comma + _encode(name) + b":" + _encode(node)
            comma = b","
            if len(buffer) > _CHUNK:
                out.write(buffer)
                buffer.clear()
        out.write(buffer + b"}}")
        separator = b",\n"
    out.write(b"\n]}\n")
    out.flush()


def write_yaml(outcomes: Iterable[PodOutcome], out: IO[bytes], detail: Detail) -> None:
    """Write the result as YAML."""
    # Here, since JSON and tables need no YAML library to be imported.
    from secondary_scheduler.yamltext import dump_yaml

    out.write(f"apiVersion: {API_VERSION}\nkind: {KIND}\ndecisions:".encode())
    ending = b" []\n"
    for outcome in outcomes:
        decision = msgspec.json.decode(_encode(_decision(outcome)))
        decision["nodes"] = msgspec.json.decode(_encode(dict(_nodes(outcome, detail))))
        out.write(b"\n" + dump_yaml([decision]).removesuffix(b"\n"))
        ending = b"\n"
    out.write(ending)
    out.flush()


def write_table(outcomes: Iterable[PodOutcome], out: IO[bytes], *, wide: bool) -> None:
    """Write a line per pod; `wide` adds the plugins' weighted scores for the chosen node."""
    header = ["POD", "NODE", "SCORE", "FEASIBLE", *(["SCORES"] if wide else []), "MESSAGE"]
    rows = [header]
    for outcome in outcomes:
        placement, node = outcome.placement, outcome.node
        total, feasible, scores = "-", "-", "-"
        if placement is not None:
            feasible = f"{placement.feasible}/{placement.evaluated}"
            total = str(placement.total) if node is not None and placement.feasible > 1 else "-"
        if node is not None and outcome.explanation is not None:
            chosen = outcome.explanation.node(node)
            total = str(chosen.total)
            scores = ",".join(f"{plugin}={score.weighted}" for plugin, score in chosen.scores.items()) or "-"
        message = outcome.message or "; ".join(_remarks(outcome))
        row = [outcome.pod, node or "-", total, feasible, *([scores] if wide else []), message]
        rows.append([printable(cell) for cell in row])
    out.write("".join(f"{line}\n" for line in aligned(rows, ("FEASIBLE", "SCORE"), whole=wide)).encode())
    out.flush()


def _remarks(outcome: PodOutcome) -> Iterable[str]:
    if outcome.victims:
        yield f"after removing {', '.join(outcome.victims)}"
    if outcome.placement is not None and outcome.placement.remark:
        yield outcome.placement.remark


def _decision(outcome: PodOutcome) -> SimulatedDecision:
    remark = outcome.placement.remark if outcome.node is not None and outcome.placement is not None else None
    return SimulatedDecision(
        pod=outcome.pod,
        scheduler_name=outcome.scheduler_name,
        node=outcome.node,
        message=outcome.message,
        victims=outcome.victims,
        remark=remark or "",
    )


def _nodes(outcome: PodOutcome, detail: Detail) -> Iterator[tuple[str, MatrixNode]]:
    if outcome.explanation is None:
        return
    for name, node in outcome.explanation.nodes(detail):
        yield name, node.answer()
