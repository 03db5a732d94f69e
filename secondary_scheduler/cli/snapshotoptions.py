"""The options of a snapshot, and of the configuration that decides on it, for the commands that do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True)
class InstalledPlace:
    """Where an installed scheduler's configuration is, for who names no file.

    Attributes:
        scheduler: its Deployment, `namespace/name`; None: the only one.
        kubeconfig, context: of the cluster that is asked where a snapshot holds none.
        command: named to the API server.
        within: namespace to look in where no scheduler is named; None: wherever schedulers are.
    """

    scheduler: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    command: str = "simulate"
    within: str | None = None

    @property
    def namespace(self) -> str | None:
        """Where to look for it; None: wherever schedulers are."""
        return self.scheduler.partition("/")[0] if self.scheduler is not None else self.within


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """What to decide on, as the options of a command say.

    Attributes:
        files: of the snapshot.
        config: whose profiles decide; None: that of the scheduler at `place`.
        old: file with a configuration to compare with.
        load: file with the measured load; None: the snapshot's own.
        as_scheduler: `NAME` or `NAME=PROFILE`, for pods of other schedulers.
        seed: of the choice among equally good nodes.
        now: time of the decisions, seconds since the epoch; None: as the load or the objects say.
        extender_recording: file with answers of extenders.
        recording: a recording in place of the files.
    """

    files: Sequence[str]
    config: Path | None = None
    old: Path | None = None
    load: str | None = None
    as_scheduler: Sequence[str] = ()
    seed: int = 0
    now: float | None = None
    extender_recording: str | None = None
    recording: str | None = None
    place: InstalledPlace = field(default_factory=InstalledPlace)


def _scheduler_place(value: str | None) -> str | None:
    if value is not None and (value.count("/") != 1 or not all(value.split("/"))):
        raise typer.BadParameter(f"{value!r} is not NAMESPACE/NAME")
    return value


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="KubeSchedulerConfiguration, ConfigMap or stack file that decides (default: the one that the snapshot "
        "holds, else that of the installed scheduler).",
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="NAMESPACE/NAME",
        callback=_scheduler_place,
        help="Deployment of the scheduler whose configuration decides, where there are several.",
    ),
]
MoreFilesArgument = Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="More files of the snapshot.")]
LoadOption = Annotated[
    str | None, typer.Option("--load", help="Measured load: the JSON that load-watcher serves at /watcher.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the choice among equally good nodes.")]
AsSchedulerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--as-scheduler",
        metavar="NAME[=PROFILE]",
        help="Decide the pending pods of this other scheduler, too, as those of the profile; repeatable.",
    ),
]
