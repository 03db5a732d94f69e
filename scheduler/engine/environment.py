"""What plugins learn of the process they run in: they are pure, so the composition roots look for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from scheduler.framework import Clocks, MonotonicSeconds, NamedFile, PluginEnvironment, WallSeconds

# The functions themselves: several calls per pod would else go through a frame of Python each. The types are for mypy.
SYSTEM_CLOCKS = Clocks(
    cast("Callable[[], WallSeconds]", time.time), cast("Callable[[], MonotonicSeconds]", time.monotonic)
)
"""The clocks of this machine."""


def plugin_environment(clocks: Clocks = SYSTEM_CLOCKS, scheduler_names: Iterable[str] = ()) -> PluginEnvironment:
    """Return the environment of this process, with the given clocks; it places pods of these scheduler names."""
    return PluginEnvironment(clocks, read_named_file, frozenset(scheduler_names))


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
