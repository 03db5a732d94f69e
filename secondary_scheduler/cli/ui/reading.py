"""What the pages of `ui` are about, read from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scheduler.config import Configuration, default_configuration
from secondary_scheduler.cli.configurationfile import ConfigurationFile
from secondary_scheduler.simulation.cluster import read_cluster
from secondary_scheduler.simulation.configured import taken_over
from secondary_scheduler.simulation.documents import read_objects
from secondary_scheduler.simulation.report import Report
from secondary_scheduler.simulation.settingup import Conditions
from secondary_scheduler.simulation.watcherload import read_load
from secondary_scheduler.views.runs import Limits
from secondary_scheduler.views.scenes import DEFAULT_LIMITS, Scene, decided_scene


@dataclass(frozen=True, slots=True)
class SceneRequest:
    """What to read.

    Attributes:
        files: of the snapshot.
        config: file with the configuration; None for the one that kube-scheduler has by default.
        old: file with a configuration to compare with.
        load: file with the load; None for the snapshot's own.
        as_scheduler: `NAME` or `NAME=PROFILE`, as for `simulate`.
        seed: of the choice among equally good nodes.
        now: time of the decisions, seconds since the epoch; None: as the load or the objects say.
        recording: a recording in place of the files.
    """

    files: Sequence[str]
    config: Path | None = None
    old: Path | None = None
    load: str | None = None
    as_scheduler: Sequence[str] = ()
    seed: int = 0
    now: float | None = None
    recording: str | None = None


@dataclass(frozen=True, slots=True)
class ReadConfigurations:
    """The files with configurations, read once; what they say depends on the cluster's version."""

    file: ConfigurationFile | None
    old_file: ConfigurationFile | None

    @staticmethod
    def of(request: SceneRequest) -> ReadConfigurations:
        """Read the files that a request names."""
        return ReadConfigurations(
            ConfigurationFile.read("--config", request.config) if request.config is not None else None,
            ConfigurationFile.read("--old", request.old) if request.old is not None else None,
        )

    def current(self, report: Report, minor: int | None = None) -> Configuration:
        """Return the configuration that decides.

        Raises:
            typer.Exit: it is not valid; its mistakes are on stderr.
        """
        if self.file is None:
            return default_configuration(allow_default_scheduler_name=True, cluster_minor=minor)
        return self.file.load(report, minor)

    def old(self, report: Report, minor: int | None) -> Configuration | None:
        """Return the one to compare with."""
        return self.old_file.load(report, minor) if self.old_file is not None else None


def kept_report(say: Callable[[str], None]) -> tuple[Report, list[str]]:
    """Return a report whose lines go to `say`, and the list that keeps them for the pages."""
    lines: list[str] = []

    def note(line: str) -> None:
        lines.append(line)
        say(line)

    return Report(note), lines


def read_scene(
    request: SceneRequest, say: Callable[[str], None], limits: Limits = DEFAULT_LIMITS, title: str = ""
) -> Scene:
    """Read everything, and decide.

    Args:
        request: what to read.
        say: gets a line for each thing that is left out or missing.
        limits: how long deciding may take.
        title: where the objects came from, if not from the files that the request names.

    Raises:
        CommandError: a file cannot be used.
        typer.Exit: a configuration is not valid; its mistakes are on stderr.
    """
    report, lines = kept_report(say)
    files = ReadConfigurations.of(request)
    configuration = files.current(report)
    measured = read_load(read_objects(request.load), request.load, report) if request.load is not None else None
    cluster = read_cluster(
        request.files,
        report,
        scheduler_names=configuration.scheduler_names,
        taken_over=taken_over(request.as_scheduler, configuration),
    )
    if cluster.minor is not None:
        # Which plugins run by default depends on the version, which only the snapshot knows.
        configuration = files.current(report, cluster.minor)
    old = files.old(report, cluster.minor)
    conditions = Conditions(request.seed, request.now, measured)
    shown = title or ", ".join(Path(file).name if file != "-" else "standard input" for file in request.files)
    scene, remarks = decided_scene(shown, cluster, configuration, conditions, old=old, limits=limits)
    for line in remarks:
        report.warn(line)
    report.close()
    return replace(scene, remarks=tuple(lines))
