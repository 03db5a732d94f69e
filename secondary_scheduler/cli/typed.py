"""What the user typed: which options (one that comes from the environment or a default contradicts nothing), and
values, files and images that several commands take."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.files import MAX_TEXT, read_bytes

if TYPE_CHECKING:
    from scheduler.config import Flavour


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


def require_file(name: Path | None, option: str) -> None:
    """Check an option's file before anything else is done.

    Raises:
        InputError: there is no such file, or it cannot be read.
    """
    if name is not None:
        read_bytes(name, limit=MAX_TEXT, option=option)


def require_writable(file: Path, option: str) -> None:
    """Check that a file can be made, or replaced, where an option names it.

    Raises:
        CommandError: its directory does not exist or cannot be written, or a directory has that name.
    """
    directory = file.resolve().parent
    if file.is_dir():
        raise CommandError(f"{option} {file}: is a directory; name a file in it")
    if not directory.is_dir():
        raise CommandError(f"{option} {file}: there is no directory {directory}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise CommandError(f"{option} {file}: you may not write to {directory}")


def require_single_stdin(names: list[str | None]) -> None:
    """Check that at most one argument is `-`.

    Raises:
        CommandError: standard input cannot be read twice.
    """
    if names.count("-") > 1:
        raise CommandError("-: standard input can be read once; name it once", ExitCode.USAGE)


def choose_flavour(image: str, flavour: str, *, option: str = "--flavour") -> Flavour | None:
    """Return the flavour that `--image` or the other option names; None if they name none."""
    from scheduler.config import UnknownFlavourError, flavour_named, flavour_of

    if image and flavour:
        raise CommandError(f"--image and {option} exclude each other; give one of them", ExitCode.USAGE)
    try:
        return flavour_named(flavour) if flavour else flavour_of(image) if image else None
    except UnknownFlavourError as error:
        raise CommandError(f"{option}: {error}", ExitCode.USAGE) from None
