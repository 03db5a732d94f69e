"""What the pages of `ui` are about, read from files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from scheduler.config import Configuration, default_configuration
from secondary_scheduler.cli.clusterrecording.reading import read_recording
from secondary_scheduler.cli.configurations import (
    NoConfigurationError,
    chosen_configuration,
    conditions_of,
    read_configuration,
    selection_of,
)
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui.course import Course, Replayable, replay_course
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin
from secondary_scheduler.simulation.changing import without_taken_off
from secondary_scheduler.simulation.cluster import build_cluster
from secondary_scheduler.simulation.objects import RecordedObjects, read_recorded
from secondary_scheduler.simulation.remarks import remarks
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.simulation.settingup import Conditions
from secondary_scheduler.views.pagemodels import DEFAULT_LIMITS, PageModel, decided_page_model
from secondary_scheduler.views.runs import Limits, SimulationRun, run_simulation


def deciding_configuration(request: SnapshotRequest, objects: RecordedObjects, report: InputReport) -> Configuration:
    """Return the configuration that decides; kube-scheduler's default one where there is no other, which is reported.

    Raises:
        CommandError: it cannot be read.
        typer.Exit: it is not valid; its mistakes are on stderr.
    """
    try:
        return chosen_configuration("--config", request.config, request.place, objects, report)
    except NoConfigurationError as error:
        place = request.place
        if not error.answered and (place.scheduler or place.kubeconfig or place.context):
            raise
        report.warn(f"configuration: kube-scheduler's default profile, as {error.reason}; --config names another")
        return default_configuration(allow_default_scheduler_name=True, cluster_minor=objects.minor)


def old_configuration(request: SnapshotRequest, objects: RecordedObjects, report: InputReport) -> Configuration | None:
    """Return the configuration to compare with; None without one.

    Raises:
        CommandError, typer.Exit: as for the one that decides.
    """
    if request.old is None:
        return None
    return read_configuration("--old", request.old, report, objects.minor)


def kept_report(say: Callable[[str], None]) -> tuple[InputReport, list[str]]:
    """Return a report whose lines go to `say`, and the list that keeps them for the pages."""
    lines: list[str] = []

    def note(line: str) -> None:
        lines.append(line)
        say(line)

    return InputReport(note), lines


def read_page_model(
    request: SnapshotRequest,
    say: Callable[[str], None],
    limits: Limits = DEFAULT_LIMITS,
    title: str = "",
    origin: LoadOrigin | None = None,
) -> PageModel:
    """Read everything, and decide.

    Args:
        request: what to read.
        say: gets a line for each thing that is left out or missing.
        limits: how long deciding may take.
        title: where the objects came from, if not from the files that the request names.
        origin: of a load that is to be read now; None: the one that the files hold.

    Raises:
        LoadError: the source does not answer with loads.
        CommandError: a file cannot be used.
        typer.Exit: a configuration is not valid; its mistakes are on stderr.
    """
    report, lines = kept_report(say)
    objects = read_recorded(request.files, report)
    configuration = deciding_configuration(request, objects, report)
    old = old_configuration(request, objects, report)
    if origin is not None:
        # Here, since files hold theirs.
        from secondary_scheduler.cli.loadoptions import add_load

        add_load(objects, origin, configuration, title, report)
    selection, conditions = selection_of(request, configuration), conditions_of(request, report)
    cluster = build_cluster(objects, report, selection)
    source = title or ", ".join(Path(file).name if file != "-" else "standard input" for file in request.files)
    page_model, remarks = decided_page_model(source, cluster, configuration, conditions, old=old, limits=limits)
    for line in remarks:
        report.warn(line)
    report.close()

    def place_again(changed: Configuration, within: Limits, stopped: Callable[[], bool]) -> SimulationRun:
        # What is wrong with the objects has been said.
        anew = replace(selection, anew=configuration.scheduler_names)
        again = replace(conditions, adapt_load=without_taken_off)
        emptied = build_cluster(objects, InputReport(lambda line: None), anew)
        return run_simulation(emptied, changed, again, limits=within, stopped=stopped, by_creation=True)

    return replace(page_model, remarks=tuple(lines), place_again=place_again)


REPLAY_LIMITS = Limits(explained=20.0, total=300.0)


@dataclass(frozen=True, slots=True)
class RecordingPageModels:
    """What the pages show of a recording.

    Attributes:
        title: the file's name.
        course: the replay.
        old: a configuration to compare with.
        remarks: what was left out or is missing, a line each.
    """

    title: str
    replayable: Replayable
    course: Course
    old: Configuration | None
    remarks: tuple[str, ...]

    @property
    def last(self) -> int:
        """The number of the last moment, from 0."""
        return len(self.course.frames) - 1

    def at(self, index: int) -> PageModel:
        """Return how things are at a moment."""
        frame, course, replayable = self.course.frames[index], self.course, self.replayable

        def decide(changed: Configuration, within: Limits, stopped: Callable[[], bool]) -> SimulationRun:
            quiet = InputReport(lambda line: None)
            other = replay_course(replayable, changed, within, report=quiet, stopped=stopped, until=index)
            if not other.complete:
                raise CommandError(
                    f"{within.total:g} s were not enough to replay the recording until this moment; choose an earlier"
                )
            return other.run_at(0)

        ours = {*course.configuration.scheduler_names, *replayable.taken_over}
        return PageModel(
            self.title,
            frame.time,
            course.run_at(index),
            self.old,
            self.remarks,
            Counter({name: number for name, number in frame.recorded.waiting.items() if name not in ours}),
            lambda node: frame.pods.get(node, ()),
            decide,
            course.recorded_nodes,
        )


def read_recording_page_models(
    request: SnapshotRequest, say: Callable[[str], None], limits: Limits = REPLAY_LIMITS
) -> RecordingPageModels:
    """Read a recording, and replay it.

    Args:
        request: names the recording.
        say: gets a line for each thing that is left out or missing.
        limits: how long the replay may take.

    Raises:
        CommandError: a file cannot be used.
        typer.Exit: a configuration is not valid; its mistakes are on stderr.
    """
    assert request.recording is not None
    report, lines = kept_report(say)
    recording = read_recording(request.recording, report)
    objects = recording.objects_at(-math.inf, report)
    configuration = deciding_configuration(request, objects, report)
    old = old_configuration(request, objects, report)
    selection = selection_of(request, configuration)
    cluster = build_cluster(objects, report, selection)
    replayable = Replayable(recording, cluster, Conditions(request.seed, recording.start), selection.taken_over)
    course = replay_course(replayable, configuration, limits, report=report)
    for line in (
        *recording.gaps,
        *remarks(cluster, configuration, course.frames[0].load, recording.start, about_pending=False),
    ):
        report.warn(line)
    if not course.complete:
        report.warn(f"{limits.total:g} s were not enough to replay everything; the last moments are missing")
    if not course.histories:
        names = ", ".join(configuration.scheduler_names)
        report.warn(f"no pod of {names} waited or arrived in the recording; to place those of another: --as-scheduler")
    report.close()
    return RecordingPageModels(recording.title, replayable, course, old, tuple(lines))
