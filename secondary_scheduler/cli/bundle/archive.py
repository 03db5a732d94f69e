"""The archive: a tar file whose members are in a fixed order, of limited size, and named safely."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path
from typing import Final

from secondary_scheduler.cli.privatefile import private_file

README: Final = "README.txt"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME: Final = 120


class Members:
    """Files of an archive by their paths in it."""

    def __init__(self, most: int) -> None:
        """Configure; `most` bytes in all."""
        self._left = most
        self.contents: dict[str, bytes] = {}

    def add(self, *path: str, content: bytes) -> bool:
        """Add a file; False where there is no room left for it. The parts of its path may be any text."""
        if len(content) > self._left:
            return False
        name = "/".join(safe_name(part) for part in path)
        count, unique = 2, name
        while unique in self.contents:
            unique, count = f"{name}-{count}", count + 1
        self._left -= len(content)
        self.contents[unique] = content
        return True

    def make_room(self, size: int) -> None:
        """Let a file of this many bytes in, whatever is there already."""
        self._left = max(self._left, size)

    def below(self, folder: str) -> dict[str, int]:
        """Sizes in bytes of the files of a folder, or of the file of that name."""
        return {
            name: len(content)
            for name, content in sorted(self.contents.items())
            if name == folder or name.startswith(f"{folder}/")
        }


def safe_name(text: str) -> str:
    """A name for a file, whatever an object is called: no separator, no `..`, no character that a shell reads."""
    return _UNSAFE.sub("_", text).lstrip(".")[:_LONGEST_NAME] or "_"


def write_archive(file: Path, root: str, members: Members, seconds: int) -> None:
    """Write the archive with mode 0600, as a whole or not at all; `seconds` since the epoch is the time of its files.

    Raises:
        CommandError: the file cannot be made there.
        OSError: it cannot be written.
    """
    ordered = sorted(members.contents.items(), key=lambda item: (item[0] != README, item[0]))
    with (
        private_file(file, "--file") as out,
        gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in ordered:
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), seconds, 0o600
            tar.addfile(entry, io.BytesIO(content))
