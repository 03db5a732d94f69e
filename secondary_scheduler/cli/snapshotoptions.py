"""The options of a snapshot in files, for the commands that decide on one."""

from __future__ import annotations

from typing import Annotated

import typer

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
