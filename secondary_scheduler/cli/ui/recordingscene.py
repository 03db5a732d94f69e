"""A recording as scenes: one for each moment that can be chosen. Made in a thread, then only read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.config import Configuration
from secondary_scheduler.cli.clusterrecording.reading import read_recording
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.ui.course import Course, Replayable, replay_course
from secondary_scheduler.cli.ui.reading import SceneRequest, deciding_configuration, kept_report, old_configuration
from secondary_scheduler.simulation.cluster import PodSelection, build_cluster
from secondary_scheduler.simulation.configured import taken_over
from secondary_scheduler.simulation.remarks import remarks
from secondary_scheduler.simulation.report import Report
from secondary_scheduler.simulation.settingup import Conditions
from secondary_scheduler.views.runs import Limits, Run
from secondary_scheduler.views.scenes import Scene

REPLAY_LIMITS = Limits(explained=20.0, total=300.0)


@dataclass(frozen=True, slots=True)
class RecordingScenes:
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

    def at(self, index: int) -> Scene:
        """Return how things are at a moment."""
        frame, course, replayable = self.course.frames[index], self.course, self.replayable

        def decide(changed: Configuration, within: Limits, stopped: Callable[[], bool]) -> Run:
            quiet = Report(lambda line: None)
            other = replay_course(replayable, changed, within, report=quiet, stopped=stopped, until=index)
            if not other.complete:
                raise CommandError(
                    f"{within.total:g} s were not enough to replay the recording until this moment; choose an earlier"
                )
            return other.run_at(0)

        ours = {*course.configuration.scheduler_names, *replayable.taken_over}
        return Scene(
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


def read_recording_scenes(
    request: SceneRequest, say: Callable[[str], None], limits: Limits = REPLAY_LIMITS
) -> RecordingScenes:
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
    selection = PodSelection(configuration.scheduler_names, taken_over(request.as_scheduler, configuration))
    cluster = build_cluster(objects, report, selection)
    conditions = Conditions(request.seed, recording.start)
    replayable = Replayable(recording, cluster, conditions, taken_over(request.as_scheduler, configuration))
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
    return RecordingScenes(recording.title, replayable, course, old, tuple(lines))
