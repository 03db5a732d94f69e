"""`secondary-scheduler completion`: prints a shell's script; `__complete` answers it."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from secondary_scheduler.cli.output import examples

_EXAMPLES = examples(
    "completion bash > /etc/bash_completion.d/secondary-scheduler",
    "completion zsh > ~/.zfunc/_secondary-scheduler",
    "completion fish > ~/.config/fish/completions/secondary-scheduler.fish",
    "completion kubectl > ~/.local/bin/kubectl_complete-secondary_scheduler",
)


class Shell(enum.StrEnum):
    """Whose script is printed."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


def register(parent: typer.Typer) -> None:
    """Add the command `completion`."""
    parent.command("completion", epilog=_EXAMPLES)(completion)


def register_answers(parent: typer.Typer) -> None:
    """Add the hidden command that the scripts call."""
    parent.command("__complete", hidden=True, context_settings={"ignore_unknown_options": True})(answer)


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell; kubectl: for `kubectl secondary-scheduler`.")],
) -> None:
    """Print a shell's completion script.

    The script for kubectl is a program of its own: pip installs it beside `kubectl-secondary_scheduler`.
    """
    from secondary_scheduler.cli.completion.scripts import SCRIPTS

    typer.echo(SCRIPTS[shell], nl=False)


def answer(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Print the completions of the last word."""
    from secondary_scheduler.cli.completion.words import complete

    typer.echo(complete(words or []).text(), nl=False)
