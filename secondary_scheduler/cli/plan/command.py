"""`secondary-scheduler plan`: two configurations on one snapshot, and what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.kubeoptions import ContextOption, KubeconfigOption
from secondary_scheduler.cli.output import examples
from secondary_scheduler.cli.plan.options import Over, PlanFormat, PlanOptions
from secondary_scheduler.cli.snapshotoptions import (
    InstalledPlace,
    LoadOption,
    MoreFilesArgument,
    SchedulerOption,
    SeedOption,
    SnapshotRequest,
)
from secondary_scheduler.cli.typed import moment, require_apart, require_single_stdin, was_typed
from secondary_scheduler.importing import importing

_EXAMPLES = examples(
    "plan --new changed.yaml --snapshot cluster.json",
    "plan --old config.yaml --new changed.yaml --snapshot cluster.json",
    "plan --old config.yaml --new changed.yaml --snapshot cluster.json --over all -o wide",
    "plan --old config.yaml --new changed.yaml --recording cluster.recording",
    "plan --old stacks/Pulumi.before.yaml --new stacks/Pulumi.prod.yaml --snapshot cluster.json -o markdown",
)


def register(parent: typer.Typer) -> None:
    """Add the command `plan`."""
    parent.command("plan", epilog=_EXAMPLES)(plan)


def plan(
    call: typer.Context,
    new: Annotated[
        Path, typer.Option("--new", help="KubeSchedulerConfiguration, ConfigMap or stack file as it is to be.")
    ],
    old: Annotated[
        Path | None,
        typer.Option(
            "--old",
            help="The same as it is now (default: the one that the snapshot holds, else that of the installed "
            "scheduler).",
        ),
    ] = None,
    snapshot: Annotated[
        list[str] | None, typer.Option("--snapshot", help="Kubernetes objects in YAML or JSON; repeatable, - is stdin.")
    ] = None,
    more: MoreFilesArgument = None,
    recording: Annotated[
        str | None,
        typer.Option(
            "--recording",
            metavar="FILE",
            help="What snapshot --record wrote, in place of --snapshot: its arrivals and deletions are replayed.",
        ),
    ] = None,
    over: Annotated[
        Over,
        typer.Option(
            "--over",
            help="Which pods are placed: the pending ones of the profiles, or all of the profiles, as if none had a "
            "node yet, in the order in which they were created; with --recording those that arrive in it.",
            show_default="pending, or recording with --recording",
        ),
    ] = Over.PENDING,
    load: LoadOption = None,
    seed: SeedOption = 0,
    now: Annotated[
        str | None,
        typer.Option(
            "--now",
            help="Time of the decisions, RFC 3339 or seconds since 1970 (default: the end of the load's window, else "
            "the newest time in the snapshot).",
        ),
    ] = None,
    extender_recording: Annotated[
        str | None,
        typer.Option(
            "--extender-recording",
            metavar="FILE",
            help="Answers of extenders that the scheduler recorded (its flag of that name).",
        ),
    ] = None,
    as_scheduler: Annotated[
        list[str] | None,
        typer.Option(
            "--as-scheduler",
            metavar="NAME[=PROFILE]",
            help="Place the pods of this other scheduler, too, as those of the profile; repeatable.",
        ),
    ] = None,
    scheduler: SchedulerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print at most five lines of text instead of the tables.")
    ] = False,
    output: Annotated[
        PlanFormat, typer.Option("-o", "--output", help="Form of the output; markdown is the summary for a comment.")
    ] = PlanFormat.TABLE,
) -> None:
    """Show what a changed configuration would do to a snapshot.

    Both configurations decide about the same pods, as simulate does, or about those that arrive in a recording. Exit
    code 3: a pod is placed differently; 0: none is; 4: a file, or an object of the snapshot, is not valid.
    """
    files = [*(snapshot or ()), *(more or ())]
    over = _over(call, over, files, recording)
    require_single_stdin([str(old), str(new), *files, recording, load, extender_recording])
    require_apart(call, "old", "scheduler", "kubeconfig", "context")
    place = InstalledPlace(scheduler, kubeconfig, context, "plan")
    time = moment(now, "--now") if now is not None else None
    if summary and output not in (PlanFormat.TABLE, PlanFormat.MARKDOWN):
        raise CommandError(f"--summary: is text or Markdown, not -o {output}; leave one of them out", ExitCode.USAGE)
    request = SnapshotRequest(
        files, new, old, load, as_scheduler or (), seed, time, extender_recording, recording, place
    )
    with importing():
        # Here, not above: it takes longer than all the rest of the command line, and mistakes in it need none of this.
        from secondary_scheduler.cli.plan.running import run
    outcome = run(request, PlanOptions(over, output, summary))
    if not outcome.valid:
        raise typer.Exit(ExitCode.INVALID_INPUT)
    if outcome.differs:
        raise typer.Exit(ExitCode.DIFFERENCES)


def _over(call: typer.Context, over: Over, files: list[str], recording: str | None) -> Over:
    """Return which pods are placed, as the options that name objects say.

    Raises:
        CommandError: they do not go together.
    """
    if recording is None:
        if not files:
            raise CommandError("give --snapshot, or --recording", ExitCode.USAGE)
        if over is Over.RECORDING:
            raise CommandError("--over recording: give --recording in place of --snapshot", ExitCode.USAGE)
        return over
    if files:
        raise CommandError("--recording and --snapshot exclude each other; leave one out", ExitCode.USAGE)
    require_apart(call, "recording", "load", "now")
    if was_typed(call, "over") and over is not Over.RECORDING:
        raise CommandError(f"--over {over}: of a snapshot; a recording is replayed", ExitCode.USAGE)
    return Over.RECORDING
