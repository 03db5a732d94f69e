"""Files that only their owner may read, as what they hold comes from a cluster."""

from __future__ import annotations

import contextlib
import os
import sys
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
    handle, name = _temporary_beside(file, option)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class GrowingFile:
    """A file that is written for long: `publish` gives it its name once what is in it can be used."""

    def __init__(self, out: IO[bytes], temporary: Path | None, file: Path | None) -> None:
        self.out = out
        self._temporary = temporary
        self._file = file

    def publish(self) -> None:
        """Give the file its name; it goes on growing."""
        if self._temporary is not None and self._file is not None:
            self._temporary.replace(self._file)
            self._temporary = None

    def discard(self) -> None:
        """Remove the file, if it has no name yet."""
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def growing_file(file: Path | None, option: str) -> Iterator[GrowingFile]:
    """Open a file with mode 0600 that keeps what was written once it is published, however the process ends.

    Args:
        file: None for stdout.
        option: what named it.

    Raises:
        CommandError: it cannot be made there.
    """
    if file is None:
        yield GrowingFile(sys.stdout.buffer, None, None)
        return
    handle, name = _temporary_beside(file, option)
    with os.fdopen(handle, "wb") as out:
        growing = GrowingFile(out, Path(name), file)
        try:
            yield growing
        finally:
            growing.discard()


def _temporary_beside(file: Path, option: str) -> tuple[int, str]:
    """Make a hidden file in the directory of `file`, with mode 0600; returns its descriptor and its path."""
    try:
        return tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    except OSError as error:
        raise CommandError(f"{option} {file}: {error.strerror}") from error
