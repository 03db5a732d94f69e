"""The command `plan` once its options are read: both configurations decide on the same objects, one after the other.

Apart from the command itself, because importing this takes longer than reading the command line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import typer

from scheduler.config import Configuration
from secondary_scheduler.balance import node_figures
from secondary_scheduler.cli.clusterrecording.reading import Recording, read_recording as read_cluster_recording
from secondary_scheduler.cli.configurations import chosen_configuration, conditions_of, read_configuration, selection_of
from secondary_scheduler.cli.plan import output as forms
from secondary_scheduler.cli.plan.options import Over, PlanOptions
from secondary_scheduler.cli.plan.output import PlanResult
from secondary_scheduler.cli.replaying import Replay, pod_names
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.simulation.changing import without_taken_off
from secondary_scheduler.simulation.cluster import PodSelection
from secondary_scheduler.simulation.comparing import Against, ComparedSide, PodPlacement, compare
from secondary_scheduler.simulation.objects import RecordedObjects, read_recorded
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.simulation.settingup import Conditions, ReadyCluster, set_up


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
class _SharedInput:
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


def run(request: SnapshotRequest, options: PlanOptions) -> PlanOutcome:
    """Decide for both configurations, compare, and write; what is wrong with the snapshot is reported on stderr."""
    of_files = InputReport(_say)
    conditions = conditions_of(request, of_files)
    recording = read_cluster_recording(request.recording, of_files) if request.recording is not None else None
    if recording is not None:
        objects = recording.objects_at(-math.inf, of_files)
    else:
        objects = read_recorded(request.files, of_files)
    assert request.config is not None  # the command demands it
    sides = (
        chosen_configuration("--old", request.old, request.place, objects, of_files, request.config),
        read_configuration("--new", request.config, of_files, objects.minor, request.old),
    )
    if recording is not None:
        conditions = replace(conditions, now=recording.start)
    anew = options.over is Over.ALL
    if anew:
        conditions = replace(conditions, adapt_load=without_taken_off)
    names = frozenset(name for side in sides for name in side.scheduler_names)
    names_of_pods = pod_names(recording) if recording is not None else {}
    shared = _SharedInput(objects, conditions, names, recording, names_of_pods)
    selections = [replace(selection_of(request, side), anew=names if anew else ()) for side in sides]
    of_files.close()
    remarks = _RemarksOfBoth()
    try:
        old = _decided(sides[0], selections[0], shared, remarks.old, Against())
        new = _decided(sides[1], selections[1], shared, remarks.new, Against(old.decided))
    finally:
        remarks.tell()
    sources = {"old": str(request.old or old.configuration.source), "new": str(request.config)}
    result = PlanResult(options.over, request.seed, sources, compare(old, new), recording)
    forms.write(result, sys.stdout.buffer, options.output, summary_only=options.summary)
    return PlanOutcome(bool(result.comparison.differing), not of_files.invalid + remarks.invalid)


def _decided(
    configuration: Configuration, selection: PodSelection, shared: _SharedInput, report: InputReport, against: Against
) -> ComparedSide:
    """Decide for one side."""
    profiles = configuration.scheduler_names
    ready = set_up(
        configuration,
        selection,
        shared.objects,
        shared.conditions,
        report,
        decided_elsewhere=shared.scheduler_names - set(profiles),
        about_pending=shared.recording is None,
    )
    undecidable = {pod.key: PodPlacement(pod.scheduler_name, None, pod.reason) for pod in ready.cluster.undecidable}
    if shared.recording is None:
        return _placed(ready, against, undecidable, anew=bool(selection.anew))
    side = Replay(
        ready,
        shared.recording,
        shared.pod_names,
        taken_over=selection.taken_over,
        scheduler_names=shared.scheduler_names,
        report=report,
        against=against,
    ).run()
    if not side.decided:
        names = ", ".join(profiles)
        report.warn(f"no pod of {names} waited or arrived in the recording; to place those of another: --as-scheduler")
    return replace(side, decided={**side.decided, **undecidable})


def _placed(
    ready: ReadyCluster, against: Against, undecidable: Mapping[str, PodPlacement], *, anew: bool
) -> ComparedSide:
    """Decide about the pods of a snapshot."""
    placements: dict[str, PodPlacement] = {}
    simulation = ready.simulation(lambda placement: against.needs_matrix(placement.pod.key, placement.node))
    for outcome in simulation.run(ready.cluster.pending, by_creation=anew):
        placements[outcome.pod] = PodPlacement(outcome.scheduler_name, outcome.node, outcome.message)
        against.note(outcome.pod, outcome)
    figures = node_figures(ready.cluster.state, ready.load, ready.now)
    return ComparedSide(ready.configuration, {**placements, **undecidable}, figures, against.equally_good)


class _RemarksOfBoth:
    """What is wrong with the objects, and what a reader has to know: once where it is the same for both sides."""

    def __init__(self) -> None:
        self._old: list[str] = []
        self._new: list[str] = []
        self.old = InputReport(self._old.append)
        self.new = InputReport(self._new.append)

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
