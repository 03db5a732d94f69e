"""`secondary-scheduler convert`: a configuration of an older API version, rewritten as v1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.reading import choose_flavour, read_text


def register(parent: typer.Typer) -> None:
    """Add the command `convert`."""
    parent.command("convert")(convert)


def convert(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The KubeSchedulerConfiguration; - is stdin.")],
    output: Annotated[str, typer.Option("-o", "--output", help="File to write to; - is stdout.")] = "-",
    image: Annotated[
        str, typer.Option(help="Image that will run the result (default: this project's scheduler).")
    ] = "",
) -> None:
    """Rewrite a v1beta1, v1beta2 or v1beta3 configuration as v1: what ran before runs after, comments are kept.

    The changes are reported on stderr. A file that is v1 already is written unchanged.
    """
    from scheduler.config import OURS, ConfigurationError, convert_text

    try:
        text, before = convert_text(read_text(file), source=file, flavour=choose_flavour(image, "") or OURS)
    except ConfigurationError as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        raise typer.Exit(ExitCode.INVALID_INPUT) from error
    for warning in before.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if output == "-":
        typer.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--output {output}: {error.strerror or error}") from error
