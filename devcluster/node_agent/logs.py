"""Container output on disk: one file per container and one of its previous instance, capped in size."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

MAX_BYTES = 10 * 1024 * 1024
TAIL_BYTES = 2048
TAIL_LINES = 80
CRI_LINE_BYTES = 64 * 1024
_CRI_LINE = re.compile(rb"\d{4}-\S+ (?:stdout|stderr) ([FP]) ")


def previous(path: Path) -> Path:
    """Where the output of the instance before is kept."""
    return path.with_name(path.name + ".previous")


def open_log(path: Path) -> int:
    """A descriptor for a new instance's output; the old file becomes the previous one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.replace(previous(path))
    # Append mode: the file can be truncated under the writer.
    return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)


def cap(path: Path, limit: int = MAX_BYTES) -> bool:
    """If a log exceeds its limit, keep its last half as ``.rotated`` and truncate it."""
    try:
        if path.stat().st_size <= limit:
            return False
        with path.open("rb") as source, path.with_name(path.name + ".rotated").open("wb") as target:
            source.seek(-limit // 2, os.SEEK_END)
            shutil.copyfileobj(source, target)
        os.truncate(path, 0)
    except OSError:
        return False
    return True


def tail(path: Path, decode: Callable[[bytes], bytes] = bytes) -> str:
    """The end of a log as FallbackToLogsOnError shows it: at most 2048 bytes of the file and 80 lines."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(-min(TAIL_BYTES, stream.tell()), os.SEEK_END)
            text = decode(stream.read()).decode("utf-8", "replace")
    except OSError:
        return ""
    return "".join(text.splitlines(keepends=True)[-TAIL_LINES:])


class CriDecoder:
    """Turns a log of container runtimes (``TIME STREAM TAG TEXT`` by line, tag ``P`` without an end) into its texts.

    Call it with the pieces of the file in their order. The rest of a line whose beginning was not read is left out.
    """

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> bytes:
        """The text of the lines that have become complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        # No line of a runtime is this long; the file may hold anything.
        self._rest = self._rest[-CRI_LINE_BYTES:]
        return b"".join(map(_cri_text, lines))


def _cri_text(line: bytes) -> bytes:
    match = _CRI_LINE.match(line)
    if match is None:
        return b""
    return line[match.end() :] + (b"" if match[1] == b"P" else b"\n")
