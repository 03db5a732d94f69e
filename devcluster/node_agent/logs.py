"""Container output on disk: one file per container and one of its previous instance, capped in size."""

import os
import shutil
from pathlib import Path

MAX_BYTES = 10 * 1024 * 1024
TAIL_BYTES = 2048
TAIL_LINES = 80


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


def tail(path: Path) -> str:
    """The end of a log as FallbackToLogsOnError shows it: at most 2048 bytes and 80 lines."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(-min(TAIL_BYTES, stream.tell()), os.SEEK_END)
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "".join(text.splitlines(keepends=True)[-TAIL_LINES:])
