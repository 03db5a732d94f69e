"""`secondary-scheduler selftest`: a second instance of the scheduler on the reader's own cluster, tried and removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode, InputError
from secondary_scheduler.cli.kubeoptions import ContextOption, FullOutputOption, KubeconfigOption
from secondary_scheduler.cli.output import FullOutputFormat, document_text, examples
from secondary_scheduler.cli.typed import require_apart, require_writable

_FORMS = (".html", ".md", ".json")
_EXAMPLES = examples(
    "selftest --yes",
    "selftest --yes --report selftest.html --report selftest.json",
    "selftest --yes --image registry.example.com/secondary-scheduler/kube-scheduler:0.2.0",
    "selftest --yes --scheduler-binary ./kube-scheduler",
    "selftest --yes --audit-log /var/log/kubernetes/audit.log",
)


def register(parent: typer.Typer) -> None:
    """Add the command `selftest`."""
    parent.command("selftest", epilog=_EXAMPLES)(selftest)


def selftest(
    call: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what the run will make, without being asked.")] = False,
    image: Annotated[
        str,
        typer.Option("--image", help="Run this image in the cluster instead of a process on this machine."),
    ] = "",
    image_pull_policy: Annotated[
        str, typer.Option("--image-pull-policy", help="Of that image: Always, IfNotPresent or Never.")
    ] = "IfNotPresent",
    scheduler_binary: Annotated[
        Path | None,
        typer.Option("--scheduler-binary", help="Run this kube-scheduler of scheduler-plugins instead of our own."),
    ] = None,
    pod_image: Annotated[
        str, typer.Option("--pod-image", help="Image that the placed pods name; it is never pulled.")
    ] = "selftest.invalid/pause",
    tolerate: Annotated[
        list[str] | None,
        typer.Option("--tolerate", metavar="KEY", help="Key of a taint that the placed pods tolerate; repeatable."),
    ] = None,
    audit_log: Annotated[
        list[Path] | None,
        typer.Option(
            "--audit-log",
            metavar="FILE",
            help="Audit log of the API server: reports refused requests and rights that were not used; repeatable.",
        ),
    ] = None,
    report: Annotated[
        list[Path] | None,
        typer.Option("--report", help="Write the report into this file: .html, .md or .json; repeatable."),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Try the scheduler on your own cluster, beside what runs there.

    Two instances of it work in a namespace of their own: they place pods by load, hold and complete a gang, respect
    taints, spread and affinity, preempt pods of their own, lose their leader and their metric source. Pods that
    kube-scheduler placed are judged by our default profile, without a change to them. First it says how long it takes
    and what it makes; in the end it removes all that. What cannot be tried is skipped, with the reason. Exit code 1: a
    step failed, or something could not be removed.
    """
    require_apart(call, "image", "scheduler_binary")
    if scheduler_binary is not None and not os.access(scheduler_binary, os.X_OK):
        raise InputError(f"--scheduler-binary {scheduler_binary}: not a file that can be executed")
    files = report or []
    for file in files:
        if file.suffix.lower() not in _FORMS:
            raise CommandError(f"--report {file}: name a file that ends with .html, .md or .json", ExitCode.USAGE)
        require_writable(file, "--report")
    if image_pull_policy not in ("Always", "IfNotPresent", "Never"):
        raise CommandError("--image-pull-policy: write Always, IfNotPresent or Never", ExitCode.USAGE)
    # Imported here: they take longer to import than all the rest of the command line.
    from secondary_scheduler.cli.selftest.auditlog import AuditLog
    from secondary_scheduler.cli.selftest.report import markdown
    from secondary_scheduler.cli.selftest.running import PreparedRun, SelfTestOptions, agree, write_reports
    from secondary_scheduler.cli.snapshotfile import cluster_to_read

    logs = list(map(AuditLog, audit_log or ()))
    options = SelfTestOptions(image, image_pull_policy, scheduler_binary, pod_image, tolerate or [], logs)
    with cluster_to_read(kubeconfig, context, renewed=True) as connection:
        prepared = PreparedRun(connection, options)
        agree(prepared, yes=yes)
        result = prepared.run(lambda line: typer.echo(line, err=True))
    write_reports(result, files)
    if output.is_document:
        typer.echo(document_text(result, output), nl=False)
    else:
        typer.echo("\n".join(markdown(result)))
    if result.has_failed:
        raise typer.Exit(ExitCode.ERROR)
