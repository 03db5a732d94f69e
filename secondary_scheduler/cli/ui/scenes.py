"""A scene: what was read, and what is decided on it. Made in a thread, then only read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.config import Configuration, default_configuration
from secondary_scheduler.cli.simulation.cluster import SimulatedCluster, read_cluster
from secondary_scheduler.cli.simulation.configured import ConfigurationFile, taken_over
from secondary_scheduler.cli.simulation.documents import read_objects
from secondary_scheduler.cli.simulation.remarks import remarks
from secondary_scheduler.cli.simulation.report import Report
from secondary_scheduler.cli.simulation.settingup import Conditions
from secondary_scheduler.cli.simulation.watcherload import read_load
from secondary_scheduler.cli.ui.runs import Limits, Run, run_simulation

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
    """

    files: Sequence[str]
    config: Path | None = None
    old: Path | None = None
    load: str | None = None
    as_scheduler: Sequence[str] = ()
    seed: int = 0
    now: float | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """What the pages show.

    Attributes:
        title: where the objects came from.
        cluster: as read; nothing is decided on its own state.
        conditions: what the decisions depend on beside cluster and configuration.
        time: of all decisions, seconds since the epoch; 0 where neither load nor objects have one.
        run: the decisions.
        old: a configuration to compare with.
        remarks: what was left out or is missing, a line each.
    """

    title: str
    cluster: SimulatedCluster
    conditions: Conditions
    time: float
    run: Run
    old: Configuration | None
    remarks: tuple[str, ...]

    @property
    def configuration(self) -> Configuration:
        """The configuration that decides."""
        return self.run.configuration


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
    file = ConfigurationFile.read("--config", request.config) if request.config is not None else None
    configuration = _configuration(file, report)
    old_file = ConfigurationFile.read("--old", request.old) if request.old is not None else None
    measured = read_load(read_objects(request.load), request.load, report) if request.load is not None else None
    cluster = read_cluster(
        request.files,
        report,
        scheduler_names=configuration.scheduler_names,
        taken_over=taken_over(request.as_scheduler, configuration),
    )
    if cluster.minor is not None:
        # Which plugins run by default depends on the version, which only the snapshot knows.
        configuration = _configuration(file, report, cluster.minor)
    old = old_file.load(report, cluster.minor) if old_file is not None else None
    conditions = Conditions(request.seed, request.now, measured)
    run = run_simulation(cluster, configuration, conditions, limits=limits)
    for line in remarks(cluster, configuration, run.load, run.now):
        report.warn(line)
    report.close()
    return Scene(
        title or ", ".join(Path(file).name if file != "-" else "standard input" for file in request.files),
        cluster,
        conditions,
        run.now,
        run,
        old,
        tuple(lines),
    )


def _configuration(file: ConfigurationFile | None, report: Report, minor: int | None = None) -> Configuration:
    if file is None:
        return default_configuration(allow_default_scheduler_name=True, cluster_minor=minor)
    return file.load(report, minor)
