"""What the user typed: which options (one that comes from the environment or a default contradicts nothing), and
values that several commands take."""

from __future__ import annotations

import math

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode


def was_typed(call: typer.Context, *names: str) -> str:
    """The options among these parameters that stand on the command line, for a message; empty if none does."""
    options = {parameter.name: parameter.opts[0] for parameter in call.command.params}
    return ", ".join(options[name] for name in names if _stands_there(call, name))


def require_apart(call: typer.Context, first: str, *others: str) -> None:
    """Check that an option does not stand beside others that it would silence.

    Raises:
        CommandError: it does.
    """
    option, silenced = was_typed(call, first), was_typed(call, *others)
    if option and silenced:
        raise CommandError(f"{option} and {silenced} exclude each other; leave one out", ExitCode.USAGE)


def moment(text: str, option: str) -> float:
    """Read a time, RFC 3339 or seconds since 1970; returns seconds since the epoch.

    Raises:
        CommandError: it is neither.
    """
    from scheduler.kube.primitives import TimestampError, epoch_seconds

    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(seconds):
            return seconds
    try:
        return epoch_seconds(text)
    except TimestampError as error:
        raise CommandError(f"{option}: {error}, nor seconds since 1970", ExitCode.USAGE) from error


def duration(option: str, text: str, minimum: float, maximum: float) -> float:
    """Read a duration such as `1h30m`; returns seconds.

    Raises:
        CommandError: it is none, or is not from `minimum` to `maximum`.
    """
    from scheduler.catalog import format_duration, parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}", ExitCode.USAGE) from error
    if not minimum <= seconds <= maximum:
        raise CommandError(
            f"{option}: {text}: from {format_duration(minimum)} to {format_duration(maximum)}", ExitCode.USAGE
        )
    return seconds


def _stands_there(call: typer.Context, name: str) -> bool:
    # By name: typer has a copy of click, and with it an enumeration of its own.
    source = call.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
