"""Files that commands are given."""

from __future__ import annotations

from pathlib import Path

from scheduler.config import Configuration, ConfigurationError, load_configuration
from secondary_scheduler.cli.errors import CommandError, ExitCode


def read_configuration(file: Path) -> Configuration:
    """Read a scheduler's configuration as the scheduler itself would.

    Raises:
        CommandError: it is not valid; one line per mistake.
    """
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
