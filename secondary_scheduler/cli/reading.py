"""Files and images that several commands take as arguments.

`scheduler.config` is imported within the functions: `--help` and mistakes in the call need none of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.files import MAX_TEXT, read_bytes

if TYPE_CHECKING:
    from scheduler.config import Flavour


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


def choose_flavour(image: str, flavour: str) -> Flavour | None:
    """Return the flavour that the options name; None if they name none."""
    from scheduler.config import UnknownFlavourError, flavour_named, flavour_of

    if image and flavour:
        raise CommandError("--image and --flavour exclude each other; give one of them", ExitCode.USAGE)
    try:
        return flavour_named(flavour) if flavour else flavour_of(image) if image else None
    except UnknownFlavourError as error:
        raise CommandError(f"--flavour: {error}", ExitCode.USAGE) from None
