"""Files that only their owner may read, as what they hold comes from a cluster."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from secondary_scheduler.cli.errors import CommandError


@contextlib.contextmanager
def private_file(file: Path, option: str) -> Iterator[IO[bytes]]:
    """Open a file so that it appears complete or not at all, with mode 0600; one of that name is replaced.

    Raises:
        CommandError: it cannot be made there.
    """
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    except OSError as error:
        raise CommandError(f"{option} {file}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
