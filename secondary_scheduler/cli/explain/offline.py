"""The answer about a pod of a snapshot, in the form in which a running scheduler answers: it is decided by the same
core, after the pods that go before it, as `simulate` does."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import typer

from scheduler.core import detail_of, explain, judge_node, without_own_use
from scheduler.framework import PodInfo
from scheduler.kube.primitives import format_time
from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.cli.simulation.cluster import PodSelection
from secondary_scheduler.cli.simulation.configured import ConfigurationFile
from secondary_scheduler.cli.simulation.deciding import Outcome
from secondary_scheduler.cli.simulation.documents import read_objects
from secondary_scheduler.cli.simulation.objects import read_recorded
from secondary_scheduler.cli.simulation.report import Report
from secondary_scheduler.cli.simulation.settingup import Conditions, ReadyCluster, set_up
from secondary_scheduler.cli.simulation.watcherload import read_load

_BEST_NODES = 5
_SEED = 0
"""As `simulate` without --seed."""


def explain_offline(
    namespace: str, name: str, why_not: str | None, files: list[str], config: Path, load: str | None, now: float | None
) -> tuple[dict[str, Any], bool]:
    """Return the answer, with `simulated` in its decision, and whether all objects of the files were valid.

    Raises:
        CommandError: the pod is not in the files, belongs to no profile, or a file cannot be used.
    """
    report = Report(lambda text: typer.echo(text, err=True))
    key = f"{namespace}/{name}"
    file = ConfigurationFile.read("--config", config)
    configuration = file.load(report)
    selection = PodSelection(configuration.scheduler_names, {})
    measured = read_load(read_objects(load), load, report) if load is not None else None
    objects = read_recorded(files, report)
    ready = set_up(file, configuration, selection, objects, Conditions(_SEED, now, measured), report)
    answer: dict[str, Any] = {"apiVersion": "secondary-scheduler.io/v1", "kind": "DecisionList", "waiting": None}
    placed = next((pod for pod in ready.assembly.attempts.state.pods() if pod.key == key), None)
    if placed is not None:
        pod = placed
        answer["items"] = [_placed(ready, placed)]
    else:
        simulation = ready.simulation(lambda placement: placement.pod.key == key)
        outcome = next((each for each in simulation.run(ready.cluster.pending) if each.pod == key), None)
        pending = [pod for pod in ready.cluster.pending if pod.key == key]
        if outcome is None or not pending:
            raise CommandError(
                printable(f"{key}: the snapshot has no such pod with a node, or pending for a profile of {config}"),
                ExitCode.INVALID_INPUT,
            )
        answer["items"] = [_decided(ready, pending[0], outcome)]
        # With its node, if it was given one: it is judged without its own use, as a placed pod is.
        pod = ready.assembly.attempts.state.pod(pending[0].uid) or pending[0]
    if why_not is not None:
        answer["whyNot"] = _why_not(ready, pod, why_not)
    report.close()
    return answer, not report.invalid


def _placed(ready: ReadyCluster, pod: PodInfo) -> dict[str, Any]:
    """A pod that has a node in the snapshot, as if it were decided about now."""
    shown = _head(ready, pod, "placed", pod.node_name, None)
    if pod.scheduler_name not in ready.assembly.attempts.runners:
        shown["message"] = "it belongs to another scheduler, so nothing is judged"
        return shown
    view, waiting = without_own_use(ready.assembly.attempts.snapshot(), pod)
    runner = ready.assembly.attempts.runner_of(pod)
    explanation = explain(view, waiting, runner)
    fits = view.row(pod.node_name) in explanation.feasible
    detail = detail_of(explanation, view, runner, pod.node_name if fits else None, _BEST_NODES)
    shown["details"] = msgspec.to_builtins(detail)
    if not fits:
        shown["message"] = "it would not be placed there again; --why-not says why"
    return shown


def _decided(ready: ReadyCluster, pod: PodInfo, outcome: Outcome) -> dict[str, Any]:
    """A pod that waits in the snapshot."""
    shown = _head(ready, pod, "unschedulable" if outcome.node is None else "scheduled", outcome.node, outcome.message)
    placement = outcome.placement
    if placement is not None:
        shown["total"] = placement.total
        shown["evaluatedNodes"], shown["feasibleNodes"] = placement.evaluated, placement.feasible
        shown["loadAgeSeconds"] = {source: round(age, 1) for source, age in placement.load_ages.items()}
    if outcome.explanation is not None:
        snapshot, runner = ready.assembly.attempts.snapshot(), ready.assembly.attempts.runner_of(pod)
        detail = detail_of(outcome.explanation, snapshot, runner, outcome.node, _BEST_NODES)
        shown["details"] = msgspec.to_builtins(detail)
    return shown


def _head(ready: ReadyCluster, pod: PodInfo, result: str, node: str | None, message: str | None) -> dict[str, Any]:
    return {
        "time": format_time(datetime.fromtimestamp(ready.assembly.attempts.clocks.wall(), UTC)),
        "pod": pod.key,
        "uid": pod.uid,
        "schedulerName": pod.scheduler_name,
        "attempt": None,
        "simulated": True,
        "result": result,
        "node": node,
        "message": message,
        "details": None,
    }


def _why_not(ready: ReadyCluster, pod: PodInfo, node: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"node": node, "placedOn": pod.node_name or None, "problem": None, "verdict": None}
    snapshot = ready.assembly.attempts.snapshot()
    if pod.scheduler_name not in ready.assembly.attempts.runners:
        shown["problem"] = "the pod belongs to another scheduler"
    elif snapshot.row(node) < 0:
        shown["problem"] = "no node of the snapshot has this name"
    else:
        view, waiting = without_own_use(snapshot, pod) if pod.node_name else (snapshot, pod)
        verdict = judge_node(view, waiting, ready.assembly.attempts.runner_of(pod), node, pod.node_name or None)
        shown["verdict"] = msgspec.to_builtins(verdict)
    return shown
