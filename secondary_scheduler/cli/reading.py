"""Files and images that several commands take as arguments. Whatever is read is bounded before it is parsed.

`scheduler.config` is imported within the functions: `--help` and mistakes in the call need none of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from secondary_scheduler.cli.errors import CommandError, ExitCode, InputError

if TYPE_CHECKING:
    from scheduler.config import Configuration, Flavour

MOST_TEXT = 1 << 20
"""Bytes of a file that people write: what a ConfigMap can hold. Parsing one with positions takes seconds per MiB."""
MOST_OBJECTS = 1 << 30
"""Bytes of a file that programs write: a snapshot, for instance, has about 2 kB per object."""


def read_bytes(name: str | Path, *, most: int, option: str = "") -> bytes:
    """Return a file's content, or stdin's for `-`.

    Args:
        name: as the user gave it.
        most: bytes; never more are read, so that a device or pipe without end does no harm.
        option: what named the file, for messages.

    Raises:
        InputError: it cannot be read, or has more bytes.
    """
    shown = f"{option} {name}" if option else str(name)
    try:
        if str(name) == "-":
            data = sys.stdin.buffer.read(most + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{shown}: {error.strerror or error}") from error
    if len(data) > most:
        raise InputError(f"{shown}: larger than {_size(most)}, which is the most that is read of such a file")
    return data


def read_text(name: str | Path, *, option: str = "") -> str:
    """Return the text of a configuration, a manifest or a stack file, or stdin's for `-`.

    Raises:
        InputError: it cannot be read, is larger than `MOST_TEXT`, or is not UTF-8.
    """
    data = read_bytes(name, most=MOST_TEXT, option=option)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        shown = f"{option} {name}" if option else str(name)
        raise InputError(f"{shown}: not UTF-8 text ({error.reason} at byte {error.start})") from error


def require_file(name: Path | None, option: str) -> None:
    """Check an option's file before anything else is done.

    Raises:
        InputError: there is no such file, or it cannot be read.
    """
    if name is not None:
        read_bytes(name, most=MOST_TEXT, option=option)


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


def read_configuration(file: Path) -> Configuration:
    """Read a scheduler's configuration as the scheduler itself would.

    Raises:
        CommandError: it is not valid; one line per mistake.
    """
    from scheduler.config import ConfigurationError, load_configuration

    try:
        return load_configuration(
            read_text(file),
            source=str(file),
            allow_token_in_config_map=True,
            allow_default_scheduler_name=True,
        )
    except ConfigurationError as error:
        raise CommandError(str(error), ExitCode.INVALID_INPUT) from error


def choose_flavour(image: str, flavour: str) -> Flavour | None:
    """Return the flavour that the options name; None if they name none."""
    from scheduler.config import UnknownFlavourError, flavour_named, flavour_of

    if image and flavour:
        raise CommandError("--image and --flavour exclude each other; give one of them", ExitCode.USAGE)
    try:
        return flavour_named(flavour) if flavour else flavour_of(image) if image else None
    except UnknownFlavourError as error:
        raise CommandError(f"--flavour: {error}", ExitCode.USAGE) from None


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count < 1 << 30 else f"{count >> 30} GiB"
