"""What `explain` is asked about a snapshot: the options, which all its commands share, and their rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.reading import require_single_stdin
from secondary_scheduler.cli.snapshotoptions import InstalledPlace, SnapshotRequest
from secondary_scheduler.cli.typed import moment, require_apart, was_typed

_ONLINE = ("scheduler_namespace", "scheduler_pod", "port", "as_service_account")

SnapshotOption = Annotated[
    list[str] | None,
    typer.Option("--snapshot", metavar="FILE", help="Ask no scheduler but decide on this snapshot; repeatable."),
]
LoadOption = Annotated[
    str | None, typer.Option("--load", metavar="FILE", help="With --snapshot: measured load, as of simulate.")
]
NowOption = Annotated[
    str | None, typer.Option("--now", metavar="TIME", help="With --snapshot: time of the decision, as of simulate.")
]


def offline_request(
    call: typer.Context, snapshot: list[str] | None, config: Path | None, load: str | None, now: str | None
) -> SnapshotRequest | None:
    """Return what the options ask for; None where a running scheduler is asked.

    Raises:
        CommandError: options that exclude each other, or one that is missing.
    """
    if not snapshot:
        if silenced := was_typed(call, "config", "scheduler", "load", "now"):
            raise CommandError(f"{silenced}: only with --snapshot", ExitCode.USAGE)
        return None
    require_apart(call, "snapshot", *_ONLINE)
    require_apart(call, "config", "scheduler", "kubeconfig", "context")
    require_single_stdin([*snapshot, load])
    options = call.params
    place = InstalledPlace(options["scheduler"], options["kubeconfig"], options["context"], "explain")
    time = moment(now, "--now") if now is not None else None
    return SnapshotRequest(snapshot, config, load=load, now=time, place=place)
