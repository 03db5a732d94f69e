"""`secondary-scheduler validate`: everything that is wrong with configurations, before anything runs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler.answers import API_VERSION
from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.kubeoptions import FullOutputOption
from secondary_scheduler.cli.output import FullOutputFormat, document_text, examples
from secondary_scheduler.cli.typed import choose_flavour, require_single_stdin
from secondary_scheduler.files import read_text

if TYPE_CHECKING:
    from secondary_scheduler.cli.checking import Checked


_EXAMPLES = examples(
    "validate config.yaml",
    "validate stacks/Pulumi.prod.yaml manifests/*.yaml -o json",
    "validate --image registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7 config.yaml",
)


def register(parent: typer.Typer) -> None:
    """Add the command `validate`."""
    parent.command("validate", epilog=_EXAMPLES)(validate)


def validate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Configurations, manifests or stack files; - is stdin.")
    ],
    output: FullOutputOption = FullOutputFormat.TABLE,
    image: Annotated[
        str,
        typer.Option(help="Image that will run it; its tag decides what is valid (default: this project's scheduler)."),
    ] = "",
    flavour: Annotated[
        str, typer.Option(help="Flavour instead of an image: ours, scheduler-plugins@0.NN or custom.")
    ] = "",
    allow_token_in_config_map: Annotated[
        bool, typer.Option("--allow-token-in-config-map", help="Accept a literal metric token in a ConfigMap.")
    ] = False,
    allow_insecure: Annotated[
        bool,
        typer.Option(
            "--allow-insecure-metric-credentials",
            help="Accept a token that is sent over HTTP, or to a server whose certificate is not verified.",
        ),
    ] = False,
) -> None:
    """Check configurations, SecondarySchedulers and stack files.

    Exit code 4: one of them is not valid. Errors and warnings go to stderr, each with file, line, column, field and
    what to do.
    """
    from dataclasses import replace

    from scheduler.catalog import UNDECIDED_RULES
    from scheduler.config import ClusterVersions, incompatibilities
    from secondary_scheduler.cli.checking import check_file, unreadable

    require_single_stdin(list(files))
    chosen = choose_flavour(image, flavour)
    rules = replace(UNDECIDED_RULES, allow_insecure=allow_insecure)
    if image and chosen is not None:
        for incompatibility in incompatibilities(ClusterVersions(), None, image, chosen):
            typer.echo(f"warning: --image {image}: {incompatibility.message}", err=True)
    results: list[Checked] = []
    for name in files:
        try:
            text = read_text(name)
            results += check_file(Path(name), text, chosen, allow_token=allow_token_in_config_map, rules=rules)
        except CommandError as error:
            # Also of one that cannot be read: the other files are checked all the same.
            results.append(unreadable(name, error))
    for result in results:
        for problem in result.problems:
            mark = "warning: " if problem.severity == "warning" else ""
            typer.echo(f"{mark}{problem}", err=True)
    if output.is_document:
        document = {
            "apiVersion": API_VERSION,
            "kind": "ValidationResult",
            "valid": all(result.valid for result in results),
            "files": [_data(result) for result in results],
        }
        typer.echo(document_text(document, output), nl=False)
    else:
        for result in results:
            typer.echo(_line(result))
    if not all(result.valid for result in results):
        raise typer.Exit(ExitCode.INVALID_INPUT)


def _line(result: Checked) -> str:
    from secondary_scheduler.cli.checking import UNREADABLE

    if result.kind == UNREADABLE:
        return f"{result.file}: cannot be checked"
    errors = sum(1 for problem in result.problems if problem.severity == "error")
    warnings = len(result.problems) - errors
    counts = [f"{count} {word}{'s' if count > 1 else ''}" for count, word in ((errors, "error"), (warnings, "warning"))]
    counted = ", ".join(text for text, count in zip(counts, (errors, warnings), strict=True) if count)
    if not result.valid:
        return f"{result.file}: {result.title or result.kind} is not valid: {counted}"
    if result.configuration is None:
        return f"{result.file}: {result.kind} is valid"
    names = ", ".join(result.configuration.scheduler_names)
    for_image = "" if result.configuration.flavour.is_ours else f" for {result.configuration.flavour.name}"
    valid = f"{result.file}: {result.title or result.kind} is valid{for_image}"
    return f"{valid}, schedulers: {names}{f' ({counted})' if counted else ''}"


def _data(result: Checked) -> dict[str, Any]:
    data: dict[str, Any] = {"file": result.file, "kind": result.kind, "valid": result.valid}
    if result.title:
        data["title"] = result.title
    if result.configuration is not None:
        data |= {
            "version": result.configuration.version,
            "flavour": result.configuration.flavour.name,
            "hash": result.configuration.hash,
            "profiles": [profile.summary() for profile in result.configuration.profiles],
        }
    data["problems"] = [
        {
            "severity": problem.severity,
            "line": problem.line or None,
            "column": problem.column or None,
            "path": problem.path,
            "message": problem.message,
            "hint": problem.hint or None,
        }
        for problem in result.problems
    ]
    return data
