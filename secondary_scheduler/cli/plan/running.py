"""The command `plan` once its options are read: both configurations decide on the same objects, one after the other.

Apart from the command itself, because importing this takes longer than reading the command line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import typer

from scheduler.config import Configuration, differences
from secondary_scheduler.balance import NodeFigures, node_figures
from secondary_scheduler.cli.chosenconfiguration import chosen_configuration
from secondary_scheduler.cli.clusterrecording.reading import Recording, read_recording as read_cluster_recording
from secondary_scheduler.cli.configurationfile import ConfigurationFile
from secondary_scheduler.cli.plan import output as forms
from secondary_scheduler.cli.plan.comparing import compare
from secondary_scheduler.cli.plan.options import Over, PlanRequest
from secondary_scheduler.cli.plan.results import PlanResult, ReplayedSide, ReplayedTime, SideSummary
from secondary_scheduler.cli.replay.replaying import PodPlacement, Replay, pod_names
from secondary_scheduler.simulation.changing import without_taken_off
from secondary_scheduler.simulation.cluster import PodSelection
from secondary_scheduler.simulation.documents import read_objects
from secondary_scheduler.simulation.objects import RecordedObjects, read_recorded
from secondary_scheduler.simulation.recording import read_recording
from secondary_scheduler.simulation.report import Report
from secondary_scheduler.simulation.settingup import Conditions, ReadyCluster, set_up, taken_over
from secondary_scheduler.simulation.watcherload import read_load


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
class _Snapshot:
    """What both sides decide on.

    Attributes:
        scheduler_names: the profiles of both.
        recording: what happened after that.
        pod_names: of the recording's pods, by UID.
    """

    objects: RecordedObjects
    conditions: Conditions
    scheduler_names: frozenset[str]
    recording: Recording | None = None
    pod_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Decided:
    """What one side placed, by pod; the figures of the nodes after that.

    Attributes:
        recorded: pods that the recording has on a node, where there is one.
    """

    placements: Mapping[str, PodPlacement]
    equally_good: Collection[str]
    figures: NodeFigures
    configuration: Configuration
    replayed: ReplayedSide | None = None
    recorded: int = 0


def run(request: PlanRequest) -> PlanOutcome:
    """Decide for both configurations, compare, and write; what is wrong with the snapshot is reported on stderr."""
    of_files = Report(_say)
    measured = read_load(read_objects(request.load), request.load, of_files) if request.load is not None else None
    recording = read_cluster_recording(request.recording, of_files) if request.recording is not None else None
    if recording is not None:
        objects = recording.objects_at(-math.inf, of_files)
    else:
        objects = read_recorded(request.files, of_files)
    sides = (
        chosen_configuration("--old", request.old, request.place, objects, of_files, request.new),
        ConfigurationFile.read("--new", request.new, request.old).load(of_files, objects.minor),
    )
    recorded = read_recording(request.extender_recording, of_files) if request.extender_recording else None
    anew = request.over is Over.ALL
    now = request.now if recording is None else recording.start
    conditions = Conditions(request.seed, now, measured, recorded, without_taken_off if anew else None)
    names = frozenset(name for side in sides for name in side.scheduler_names)
    snapshot = _Snapshot(objects, conditions, names, recording, pod_names(recording) if recording is not None else {})
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
        old=SideSummary(str(request.old or old.configuration.source), old.configuration, old.figures, old.replayed),
        new=SideSummary(str(request.new), new.configuration, new.figures, new.replayed),
        changes=tuple(differences(old.configuration, new.configuration)),
        comparison=compare(old.placements, new.placements, new.equally_good),
        replayed=_replayed_time(recording, max(old.recorded, new.recorded)) if recording is not None else None,
    )
    forms.write(result, sys.stdout.buffer, request.output, summary_only=request.summary)
    return PlanOutcome(result.comparison.differs, not of_files.invalid + remarks.invalid)


def _decided(
    configuration: Configuration,
    request: PlanRequest,
    snapshot: _Snapshot,
    report: Report,
    former: Mapping[str, PodPlacement],
) -> _Decided:
    """Decide for one side. `former`: the placements of the other, with which these will be compared."""
    profiles, anew = configuration.scheduler_names, request.over is Over.ALL
    selection = PodSelection(
        profiles, taken_over(request.as_scheduler, configuration), anew=snapshot.scheduler_names if anew else ()
    )
    elsewhere = snapshot.scheduler_names - set(profiles)
    ready = set_up(
        configuration,
        selection,
        snapshot.objects,
        snapshot.conditions,
        report,
        decided_elsewhere=elsewhere,
        about_pending=snapshot.recording is None,
    )
    if snapshot.recording is not None:
        return _replayed(ready, request, snapshot, snapshot.recording, report, former)
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


def _replayed(
    ready: ReadyCluster,
    request: PlanRequest,
    snapshot: _Snapshot,
    recording: Recording,
    report: Report,
    former: Mapping[str, PodPlacement],
) -> _Decided:
    """Decide for one side about what arrived in a recording."""
    replayed = Replay(
        ready,
        recording,
        snapshot.pod_names,
        taken_over=taken_over(request.as_scheduler, ready.configuration),
        scheduler_names=snapshot.scheduler_names,
        report=report,
        former=former,
    ).run()
    if not replayed.placements:
        names = ", ".join(ready.configuration.scheduler_names)
        report.warn(f"no pod of {names} waited or arrived in the recording; to place those of another: --as-scheduler")
    for pod in ready.cluster.undecidable:
        replayed.placements[pod.key] = PodPlacement(pod.scheduler_name, None, pod.reason)
    side = ReplayedSide(replayed.worst, replayed.as_recorded)
    return _Decided(
        replayed.placements, replayed.equally_good, replayed.figures, ready.configuration, side, replayed.recorded
    )


def _replayed_time(recording: Recording, recorded: int) -> ReplayedTime:
    return ReplayedTime(recording.start, recording.end, tuple(recording.gaps), recorded)


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
