"""The options of a snapshot, and of the configuration that decides on it, for the commands that do so."""

from __future__ import annotations

from dataclasses import dataclass
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
