"""The answers on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer

from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.output import FullOutputFormat, document_text, fitted


def write(
    answer: Mapping[str, Any], output: FullOutputFormat, lines: Callable[[Mapping[str, Any], bool], Iterable[str]]
) -> None:
    """Write an answer to stdout.

    Args:
        answer: JSON-ready.
        output: its form.
        lines: renders it for people, `wide` or not.

    Raises:
        CommandError: the answer is of a scheduler of another version, which `lines` does not understand.
    """
    if output.is_document:
        typer.echo(document_text(answer, output), nl=False)
        return
    wide = output is FullOutputFormat.WIDE
    try:
        text = list(lines(answer, wide))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CommandError(
            "the answer is of a scheduler of another version, which this command does not understand: use the command "
            "of that version, or -o json"
        ) from error
    for line in text if wide else fitted(text):
        typer.echo(line)
