"""`secondary-scheduler convert`: a configuration of an older version rewritten as v1, or as another image has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.output import examples
from secondary_scheduler.cli.typed import choose_flavour, require_writable
from secondary_scheduler.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.config import ConfigurationError, Problem

_EXAMPLES = examples(
    "convert old.yaml", "convert old.yaml --file new.yaml", "convert config.yaml --for scheduler-plugins@0.34"
)


def register(parent: typer.Typer) -> None:
    """Add the command `convert`."""
    parent.command("convert", epilog=_EXAMPLES)(convert)


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="The KubeSchedulerConfiguration, or a manifest that holds one; - is stdin."
        ),
    ],
    target: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Write to this file instead of to stdout.")
    ] = None,
    image: Annotated[
        str, typer.Option(help="Image that will run the result (default: this project's scheduler).")
    ] = "",
    flavour: Annotated[
        str,
        typer.Option("--for", metavar="FLAVOUR", help="Leave out what this image lacks: scheduler-plugins@0.34."),
    ] = "",
) -> None:
    """Rewrite a configuration of an older version as v1.

    From v1beta1, v1beta2 or v1beta3; what ran before runs after, and comments are kept. The changes are reported on
    stderr. A file that is v1 already is written unchanged. With --for, what the other image has no counterpart for is
    left out, and each is named.
    """
    from scheduler.config import OURS, ConfigurationError, adapt_text, convert_text, find_configuration

    chosen = choose_flavour(image, flavour, option="--for") or OURS
    if target is not None:
        require_writable(target, "--file")
    try:
        embedded = find_configuration(read_text(source), source)
    except ConfigurationError as error:
        _refuse(error.problems, error)
    try:
        if flavour:
            text, remarks = adapt_text(embedded.text, source=source, flavour=chosen)
            remarks = [replace(left_out, message=f"left out: {left_out.message}") for left_out in remarks]
        else:
            text, before = convert_text(embedded.text, source=source, flavour=chosen)
            remarks = list(before.warnings)
    except ConfigurationError as error:
        _refuse(map(embedded.in_file, error.problems), error)
    if embedded.title:
        typer.echo(f"{source}: {embedded.title}", err=True)
    for warning in map(embedded.in_file, remarks):
        typer.echo(f"warning: {warning}", err=True)
    if target is None:
        typer.echo(text, nl=False)
        return
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--file {target}: {error.strerror or error}") from error


def _refuse(problems: Iterable[Problem], error: ConfigurationError) -> NoReturn:
    for problem in problems:
        typer.echo(str(problem), err=True)
    raise typer.Exit(ExitCode.INVALID_INPUT) from error
