"""The commands and where each is implemented; a command's module is imported only when it is called."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import typer

from scheduler import __version__
from secondary_scheduler.cli.errors import CommandError, ExitCode, Interrupted, printable_lines
from secondary_scheduler.cli.output import examples
from secondary_scheduler.importing import importing

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Each module has `register(app)`, which adds the command or group of that name.
COMMANDS = {
    "simulate": "secondary_scheduler.cli.simulate.command",
    "plan": "secondary_scheduler.cli.plan.command",
    "rebalance": "secondary_scheduler.cli.rebalance.command",
    "snapshot": "secondary_scheduler.cli.snapshot",
    "validate": "secondary_scheduler.cli.validate",
    "convert": "secondary_scheduler.cli.convert",
    "preflight": "secondary_scheduler.cli.preflight",
    "selftest": "secondary_scheduler.cli.selftest.command",
    "render": "secondary_scheduler.cli.render.command",
    "status": "secondary_scheduler.cli.status.command",
    "top": "secondary_scheduler.cli.top.command",
    "explain": "secondary_scheduler.cli.explain.command",
    "bundle": "secondary_scheduler.cli.bundle.command",
    "opt-in": "secondary_scheduler.cli.optin.command",
    "ui": "secondary_scheduler.cli.ui.command",
    "fleet": "secondary_scheduler.cli.fleet.command",
    "version": "secondary_scheduler.cli.version",
    "completion": "secondary_scheduler.cli.completion",
}
_COMPLETE = "__complete"
"""What the scripts of `completion` call."""
KUBECTL_OPTIONS = {
    "--kubeconfig": True,
    "--context": True,
    "--namespace": True,
    "-n": True,
    "--all-namespaces": False,
    "-A": False,
}
"""Options that may precede the command, and whether a value follows."""
_WIDTH = 120
"""Columns of help at most, and where there is no terminal to ask."""
COMMAND_GROUP = "secondary_scheduler.commands"
"""Entry points of this group add commands: their name is the command's, their value its `register(app)`."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application with the command that the arguments name, or with all where they name none (help, mistakes)."""
    app = typer.Typer(
        name="secondary-scheduler",
        help="Install, run and examine the secondary scheduler.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        # Plain help: rich's tables cut long options, and assume 80 columns where there is no terminal.
        rich_markup_mode=None,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": _WIDTH,
            "terminal_width": min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns),
        },
        epilog=examples("validate config.yaml", "snapshot --file cluster.json", "preflight --help"),
    )
    app.callback()(_root_options)
    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    with importing():
        if named == _COMPLETE:
            importlib.import_module(COMMANDS["completion"]).register_answers(app)
            return app
        if named in COMMANDS:
            importlib.import_module(COMMANDS[named]).register(app)
            return app
        added = {entry.name: entry for entry in importlib.metadata.entry_points(group=COMMAND_GROUP)}
        if named in added:
            added[named].load()(app)
            return app
        for module in COMMANDS.values():
            importlib.import_module(module).register(app)
        for entry in added.values():
            entry.load()(app)
    if named == "cluster":
        raise CommandError(
            "cluster: the local cluster is a package of its own: pip install ./devcluster", ExitCode.USAGE
        )
    return app


def main() -> None:
    """Run the command of `sys.argv`; an expected error is one line on stderr and an exit code, never a traceback."""
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    try:
        arguments = with_command_first(sys.argv[1:])
        build(arguments)(arguments)
    except CommandError as error:
        _exit_with_message(str(error), error.code)
    except BrokenPipeError:
        # The reader of our output has seen enough; the interpreter must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.ERROR)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _exit_with_message(f"{place}{error.strerror or error}", ExitCode.ERROR)
    except Interrupted as interruption:
        _exit_with_message(interruption.text, ExitCode.INTERRUPTED)


def with_command_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with kubectl's options behind the command that they precede: kubectl takes them anywhere."""
    before, rest = split_kubectl_options(arguments)
    return [*rest[:1], *before, *rest[1:]]


def split_kubectl_options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return kubectl's options before the command, with their values, and the rest, which begins with the command."""
    before: list[str] = []
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] in KUBECTL_OPTIONS:
        option = rest.pop(0)
        before.append(option)
        if KUBECTL_OPTIONS[option.partition("=")[0]] and "=" not in option and rest:
            before.append(rest.pop(0))
    return before, rest


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # Cleanup begins: a second Ctrl-C must not leave half of it undone. A handler that does nothing, not SIG_IGN: that
    # would be inherited by a process that is just being started, which could then not be stopped.
    for number in _SIGNALS:
        signal.signal(number, _ignore_signal)
    raise Interrupted


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    return


def _exit_with_message(message: str, code: ExitCode) -> None:
    # It may quote what was typed, or what a file or a server holds.
    print(f"secondary-scheduler: {printable_lines(message)}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(__version__)
        raise typer.Exit


def _root_options(
    _version_wanted: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Install, run and examine the secondary scheduler."""
