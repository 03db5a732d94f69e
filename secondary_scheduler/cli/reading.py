"""Files and images that several commands take as arguments.

`scheduler.config` is imported within the functions: `--help` and mistakes in the call need none of it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from secondary_scheduler.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from scheduler.config import Configuration, Flavour


def read_configuration(file: Path) -> Configuration:
    """Read a scheduler's configuration as the scheduler itself would.

    Raises:
        CommandError: it is not valid; one line per mistake.
    """
    from scheduler.config import ConfigurationError, load_configuration

    try:
        return load_configuration(
            file.read_text(encoding="utf-8"),
            source=str(file),
            allow_token_in_config_map=True,
            allow_default_scheduler_name=True,
        )
    except ConfigurationError as error:
        raise CommandError(str(error), ExitCode.INVALID_INPUT) from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{file}: not UTF-8 text", ExitCode.INVALID_INPUT) from error


def choose_flavour(image: str, flavour: str) -> Flavour | None:
    """Return the flavour that the options name; None if they name none."""
    from scheduler.config import UnknownFlavourError, flavour_named, flavour_of

    if image and flavour:
        raise CommandError("--image and --flavour exclude each other; give one of them", ExitCode.USAGE)
    try:
        return flavour_named(flavour) if flavour else flavour_of(image) if image else None
    except UnknownFlavourError as error:
        raise CommandError(f"--flavour: {error}", ExitCode.USAGE) from None


def read_text(name: str) -> str:
    """Return a file's text, or stdin's for `-`."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}", ExitCode.INVALID_INPUT) from error
    except UnicodeDecodeError as error:
        message = f"{name}: not UTF-8 text ({error.reason} at byte {error.start})"
        raise CommandError(message, ExitCode.INVALID_INPUT) from error
