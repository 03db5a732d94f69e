"""`secondary-scheduler fleet`: preview, update or refresh many stacks of the project."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondary_scheduler.cli import completers
from secondary_scheduler.cli.errors import ExitCode
from secondary_scheduler.cli.fleet.results import FleetPlan, FleetResult, Operation, StackResult, exit_code
from secondary_scheduler.cli.kubeoptions import FullOutputOption
from secondary_scheduler.cli.output import FullOutputFormat, document_text, examples
from secondary_scheduler.cli.typed import require_writable

if TYPE_CHECKING:
    from secondary_scheduler.cli.fleet.project import FleetStack, Project

_HELP = """One operation on many stacks: in waves, with a health gate.

A stack's wave stands in its settings as fleet:wave; without it, the wave is "rest".
"""


Stacks = Annotated[
    list[str],
    typer.Option(
        "--stacks",
        autocompletion=completers.stacks,
        help="Stacks by name or glob, such as 'prod-*'; may be repeated.",
    ),
]
Waves = Annotated[str, typer.Option("--waves", help="Order of the waves.")]
Parallel = Annotated[int, typer.Option("--parallel", min=1, max=64, help="How many stacks at a time.")]
Timeout = Annotated[
    float, typer.Option("--timeout", min=1, help="Seconds that a stack may take, its health gate excluded.")
]
ClusterTimeout = Annotated[
    float,
    typer.Option("--cluster-timeout", min=0, help="Seconds in which a stack's cluster must answer; 0 skips the check."),
]
Markdown = Annotated[Path | None, typer.Option("--markdown", help="Write a pull-request comment to this file.")]
ProjectDirectory = Annotated[Path, typer.Option("--project", help="The project's directory, or one below it.")]
HERE = Path()


def register(parent: typer.Typer) -> None:
    """Add the group `fleet`."""
    app = typer.Typer(name="fleet", help=_HELP, no_args_is_help=True, rich_markup_mode=None, epilog=_EXAMPLES[up])
    for command in (preview, up, refresh):
        app.command(epilog=_EXAMPLES[command])(command)
    parent.add_typer(app)


def preview(
    stacks: Stacks,
    waves: Waves = "canary,rest",
    parallel: Parallel = 4,
    timeout: Timeout = 900,
    cluster_timeout: ClusterTimeout = 10,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Preview from the stacks' states alone, without their clusters."),
    ] = False,
    markdown: Markdown = None,
    project: ProjectDirectory = HERE,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Show what an update would change.

    Exit code 3: there are changes; 0: there are none; 1: a stack failed.
    """
    plan = FleetPlan(Operation.PREVIEW, seconds=timeout, cluster_seconds=None if offline else cluster_timeout or None)
    _run(plan, stacks, waves, parallel, markdown, project, output)


def up(
    stacks: Stacks,
    waves: Waves = "canary,rest",
    parallel: Parallel = 4,
    timeout: Timeout = 900,
    cluster_timeout: ClusterTimeout = 10,
    gate: Annotated[
        bool, typer.Option("--gate/--no-gate", help="Wait until each scheduler is healthy and places a pod.")
    ] = True,
    gate_timeout: Annotated[
        float, typer.Option("--gate-timeout", min=1, help="Seconds in which a scheduler must be healthy.")
    ] = 300,
    markdown: Markdown = None,
    project: ProjectDirectory = HERE,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Update the stacks wave by wave.

    After a failure no later wave starts. Exit code 1: a stack failed.
    """
    plan = FleetPlan(
        Operation.UP,
        seconds=timeout,
        cluster_seconds=cluster_timeout or None,
        gate_seconds=gate_timeout if gate else None,
    )
    _run(plan, stacks, waves, parallel, markdown, project, output)


def refresh(
    stacks: Stacks,
    waves: Waves = "canary,rest",
    parallel: Parallel = 4,
    timeout: Timeout = 900,
    cluster_timeout: ClusterTimeout = 10,
    preview_only: Annotated[
        bool,
        typer.Option("--preview-only", help="Only show what differs from the states; exit code 3 if anything does."),
    ] = False,
    markdown: Markdown = None,
    project: ProjectDirectory = HERE,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Update the stacks' states from their clusters.

    The clusters are only read. Exit code 1: a stack failed.
    """
    plan = FleetPlan(Operation.REFRESH, preview_only, seconds=timeout, cluster_seconds=cluster_timeout or None)
    _run(plan, stacks, waves, parallel, markdown, project, output)


_EXAMPLES = {
    preview: examples(
        "fleet preview --stacks 'prod-*'", "fleet preview --stacks 'prod-*' --offline --markdown comment.md"
    ),
    up: examples("fleet up --stacks 'prod-*' --waves canary,rest"),
    refresh: examples("fleet refresh --stacks 'prod-*' --preview-only"),
}


def _run(
    plan: FleetPlan,
    patterns: list[str],
    waves: str,
    parallel: int,
    markdown: Path | None,
    directory: Path,
    output: FullOutputFormat,
) -> None:
    from rich.console import Console

    from secondary_scheduler.cli.fleet import report
    from secondary_scheduler.cli.fleet.project import arrange_in_waves, find_project, select
    from secondary_scheduler.cli.fleet.report import comment
    from secondary_scheduler.cli.fleet.work import run_waves

    if markdown is not None:
        require_writable(markdown, "--markdown")
    project = find_project(directory)
    arranged = arrange_in_waves(select(project, patterns), waves)
    errors = Console(stderr=True)
    stopping = threading.Event()

    def say(text: str) -> None:
        errors.print(text, markup=False, highlight=False, soft_wrap=True)

    work = _work(plan, project, stopping, say)
    results = run_waves(
        arranged,
        work,
        parallel=parallel,
        stop_on_failure=plan.operation is Operation.UP,
        stopping=stopping,
        on_result=lambda result: say(report.line_of(result)),
    )
    if markdown is not None:
        markdown.write_text(comment(plan.operation, results), encoding="utf-8")
    if output.is_document:
        typer.echo(document_text(FleetResult(operation=plan.operation, stacks=results), output), nl=False)
    else:
        report.print_table(Console(), plan.operation, results)
    code = exit_code(results, previewed=plan.previews)
    if code is ExitCode.INTERRUPTED:
        say("interrupted: running stacks were cancelled, later stacks were not started")
    raise typer.Exit(code)


def _work(
    plan: FleetPlan, project: Project, stopping: threading.Event, say: Callable[[str], None]
) -> Callable[[FleetStack], StackResult]:
    # Here, since pulumi takes longer to import than all the rest.
    from secondary_scheduler.cli.fleet.process import find_pulumi
    from secondary_scheduler.cli.fleet.work import StackWork

    return StackWork(find_pulumi(), project, plan, stopping, say)
