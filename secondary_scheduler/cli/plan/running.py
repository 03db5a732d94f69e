"""The command `plan` once its options are read: both configurations decide on the same objects, one after the other.

Apart from the command itself, because importing this takes longer than reading the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import typer

from scheduler.config import Configuration, differences
from secondary_scheduler.balance import NodeFigures, node_figures
from secondary_scheduler.cli.plan import output as forms
from secondary_scheduler.cli.plan.comparing import PodPlacement, compare
from secondary_scheduler.cli.plan.options import Over, PlanRequest
from secondary_scheduler.cli.plan.results import PlanResult, SideSummary
from secondary_scheduler.cli.plan.takenoff import without_taken_off
from secondary_scheduler.cli.simulation.cluster import PodSelection
from secondary_scheduler.cli.simulation.configured import ConfigurationFile, taken_over
from secondary_scheduler.cli.simulation.documents import read_objects
from secondary_scheduler.cli.simulation.objects import RecordedObjects, read_recorded
from secondary_scheduler.cli.simulation.recording import read_recording
from secondary_scheduler.cli.simulation.report import Report
from secondary_scheduler.cli.simulation.settingup import Conditions, set_up
from secondary_scheduler.cli.simulation.watcherload import read_load


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What the exit code says.

    Attributes:
        differs: a pod is placed differently.
        valid: every object of the snapshot could be used.
    """

    differs: bool
    valid: bool


@dataclass(frozen=True, slots=True)
class _Side:
    file: ConfigurationFile
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What both sides decide on; `scheduler_names` are the profiles of both."""

    objects: RecordedObjects
    conditions: Conditions
    scheduler_names: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Decided:
    """What one side placed, by pod; the figures of the nodes after that."""

    placements: Mapping[str, PodPlacement]
    equally_good: Collection[str]
    figures: NodeFigures
    configuration: Configuration


def run(request: PlanRequest) -> PlanOutcome:
    """Decide for both configurations, compare, and write; what is wrong with the snapshot is reported on stderr."""
    of_files = Report(_say)
    sides = [
        _Side(file, file.load(of_files))
        for file in (ConfigurationFile.read("--old", request.old), ConfigurationFile.read("--new", request.new))
    ]
    measured = read_load(read_objects(request.load), request.load, of_files) if request.load is not None else None
    objects = read_recorded(request.files, of_files)
    recorded = read_recording(request.extender_recording, of_files) if request.extender_recording else None
    anew = request.over is Over.ALL
    conditions = Conditions(request.seed, request.now, measured, recorded, without_taken_off if anew else None)
    names = frozenset(name for side in sides for name in side.configuration.scheduler_names)
    snapshot = _Snapshot(objects, conditions, names)
    of_files.close()
    remarks = _RemarksOfBoth()
    try:
        old = _decided(sides[0], request, snapshot, remarks.old, {})
        new = _decided(sides[1], request, snapshot, remarks.new, old.placements)
    finally:
        remarks.tell()
    result = PlanResult(
        over=request.over,
        seed=request.seed,
        old=SideSummary(str(request.old), old.configuration, old.figures),
        new=SideSummary(str(request.new), new.configuration, new.figures),
        changes=tuple(differences(old.configuration, new.configuration)),
        comparison=compare(old.placements, new.placements, new.equally_good),
    )
    forms.write(result, sys.stdout.buffer, request.output, summary_only=request.summary)
    return PlanOutcome(result.comparison.differs, not of_files.invalid + remarks.invalid)


def _decided(
    side: _Side, request: PlanRequest, snapshot: _Snapshot, report: Report, former: Mapping[str, PodPlacement]
) -> _Decided:
    """Decide for one side. `former`: the placements of the other, with which these will be compared."""
    profiles, anew = side.configuration.scheduler_names, request.over is Over.ALL
    selection = PodSelection(
        profiles, taken_over(request.as_scheduler, side.configuration), anew=snapshot.scheduler_names if anew else ()
    )
    elsewhere = snapshot.scheduler_names - set(profiles)
    ready = set_up(
        side.file,
        side.configuration,
        selection,
        snapshot.objects,
        snapshot.conditions,
        report,
        decided_elsewhere=elsewhere,
    )
    placements: dict[str, PodPlacement] = {}
    equally_good: set[str] = set()
    simulation = ready.simulation(lambda placement: _is_other_node(former.get(placement.pod.key), placement.node))
    for outcome in simulation.run(ready.cluster.pending, by_creation=anew):
        placements[outcome.pod] = PodPlacement(outcome.scheduler_name, outcome.node, outcome.message)
        before, best = former.get(outcome.pod), outcome.explanation.best if outcome.explanation is not None else ()
        if before is not None and before.node in best and _is_other_node(before, outcome.node):
            equally_good.add(outcome.pod)
    for pod in ready.cluster.undecidable:
        placements[pod.key] = PodPlacement(pod.scheduler_name, None, pod.reason)
    figures = node_figures(ready.cluster.state, ready.load, ready.now)
    return _Decided(placements, equally_good, figures, ready.configuration)


def _is_other_node(former: PodPlacement | None, node: str | None) -> bool:
    return former is not None and former.node is not None and node is not None and node != former.node


class _RemarksOfBoth:
    """What is wrong with the objects, and what a reader has to know: once where it is the same for both sides."""

    def __init__(self) -> None:
        self._old: list[str] = []
        self._new: list[str] = []
        self.old = Report(self._old.append)
        self.new = Report(self._new.append)

    @property
    def invalid(self) -> int:
        """How many objects were left out."""
        return self.old.invalid + self.new.invalid

    def tell(self) -> None:
        """Print everything."""
        self.old.close()
        self.new.close()
        for text in self._old:
            _say(text if text in self._new else f"old: {text}")
        for text in self._new:
            if text not in self._old:
                _say(f"new: {text}")


def _say(text: str) -> None:
    typer.echo(text, err=True)
