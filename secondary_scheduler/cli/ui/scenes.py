"""A scene: what was read, and what is decided on it. Made in a thread, then only read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.config import Configuration, default_configuration
from scheduler.framework import PodInfo
from secondary_scheduler.cli.configurationfile import ConfigurationFile
from secondary_scheduler.cli.ui.runs import Limits, Run, run_simulation
from secondary_scheduler.simulation.cluster import read_cluster
from secondary_scheduler.simulation.configured import taken_over
from secondary_scheduler.simulation.documents import read_objects
from secondary_scheduler.simulation.remarks import remarks
from secondary_scheduler.simulation.report import Report
from secondary_scheduler.simulation.settingup import Conditions
from secondary_scheduler.simulation.watcherload import read_load

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_LIMITS = Limits(explained=20.0, total=60.0)


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
class Scene:
    """What the pages show.

    Attributes:
        title: where the objects came from.
        time: of all decisions, seconds since the epoch; 0 where neither load nor objects have one.
        run: the decisions.
        old: a configuration to compare with.
        remarks: what was left out or is missing, a line each.
        others: pods that wait for other schedulers, by the scheduler's name.
        pods_on: those that the cluster has on a node.
        decide: the same with another configuration, until the callable says that it is to end.
        recorded_nodes: None on a snapshot; on a recording, where it has a pod on a node, by the pod's name.
    """

    title: str
    time: float
    run: Run
    old: Configuration | None
    remarks: tuple[str, ...]
    others: Counter[str]
    pods_on: Callable[[str], Collection[PodInfo]]
    decide: Callable[[Configuration, Limits, Callable[[], bool]], Run]
    recorded_nodes: Mapping[str, str] | None = None

    @property
    def configuration(self) -> Configuration:
        """The configuration that decides."""
        return self.run.configuration

    @property
    def is_replayed(self) -> bool:
        """Whether it is a moment of a recording."""
        return self.recorded_nodes is not None


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
    lines: list[str] = []

    def note(line: str) -> None:
        lines.append(line)
        say(line)

    report = Report(note)
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
    run = run_simulation(cluster, configuration, conditions, limits=limits)
    for line in remarks(cluster, configuration, run.load, run.now):
        report.warn(line)
    report.close()

    def decide(changed: Configuration, within: Limits, stopped: Callable[[], bool]) -> Run:
        return run_simulation(cluster, changed, conditions, limits=within, stopped=stopped)

    return Scene(
        title or ", ".join(Path(file).name if file != "-" else "standard input" for file in request.files),
        run.now,
        run,
        old,
        tuple(lines),
        cluster.others,
        cluster.state.pods_on,
        decide,
    )
