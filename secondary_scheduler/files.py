"""Files that are read as a whole; whatever is read is bounded before it is parsed."""

from __future__ import annotations

import sys
from pathlib import Path

from secondary_scheduler.errors import InputError

MAX_TEXT = 1 << 20
"""Bytes of a file that people write: what a ConfigMap can hold. Parsing one with positions takes seconds per MiB."""
MAX_OBJECTS = 1 << 30
"""Bytes of a file that programs write: a snapshot, for instance, has about 2 kB per object."""


def read_bytes(name: str | Path, *, limit: int, option: str = "") -> bytes:
    """Return a file's content, or stdin's for `-`.

    Args:
        name: as the user gave it.
        limit: bytes; never more are read, so that a device or pipe without end does no harm.
        option: what named the file, for messages.

    Raises:
        InputError: it cannot be read, or has more bytes.
    """
    title = f"{option} {name}" if option else str(name)
    try:
        if str(name) == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        raise InputError(f"{title}: {error.strerror or error}") from error
    if len(data) > limit:
        raise InputError(f"{title}: larger than {_size(limit)}, which is the most that is read of such a file")
    return data


def read_text(name: str | Path, *, option: str = "") -> str:
    """Return the text of a configuration, a manifest or a stack file, or stdin's for `-`.

    Raises:
        InputError: it cannot be read, is larger than `MAX_TEXT`, or is not UTF-8.
    """
    data = read_bytes(name, limit=MAX_TEXT, option=option)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        title = f"{option} {name}" if option else str(name)
        raise InputError(f"{title}: not UTF-8 text ({error.reason} at byte {error.start})") from error


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count < 1 << 30 else f"{count >> 30} GiB"
