"""What plugins learn of the process they run in: they are pure, so the composition roots look for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from scheduler.framework import NamedFile, PluginEnvironment


def plugin_environment(clock: Callable[[], float] = time.time) -> PluginEnvironment:
    """Return the environment of this process, with the time of the given clock (seconds since the epoch)."""
    return PluginEnvironment(clock, read_named_file)


def read_named_file(variable: str) -> NamedFile:
    """Read the file that an environment variable names.

    Raises:
        ValueError: the variable is not set, or the file cannot be read; worded as by upstream.
    """
    path = os.environ.get(variable, "")
    if not path:
        # Path("") would be the current directory.
        raise ValueError("open : no such file or directory")
    try:
        return NamedFile(path, Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"open {path}: {(error.strerror or '').lower()}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{variable} {path}: not UTF-8 text") from error
