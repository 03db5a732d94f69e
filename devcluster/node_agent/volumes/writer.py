"""Writes the files of a volume so that readers see one version or the next, never a mixture.

The layout is kubelet's: the files stand in a time-stamped directory, ``..data`` links to it, each top-level name links
through ``..data``; an update is one rename. Source: k8s.io/kubernetes/pkg/volume/util/atomic_writer.go.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

DATA = "..data"


@dataclass(frozen=True, slots=True)
class FileContent:
    """One file to appear in a volume."""

    data: bytes
    mode: int = 0o644


Payload = Mapping[str, FileContent]


def write_payload(directory: Path, payload: Payload, group: int | None = None) -> bool:
    """Make directory show exactly payload; return whether anything changed. Paths are relative, without ``..``.

    ``group``: the files are given to it, and it may read them, as with a pod's fsGroup.
    """
    if group is not None:
        payload = {path: FileContent(content.data, content.mode | 0o440) for path, content in payload.items()}
    for path in payload:
        if path.startswith(("/", "..")) or ".." in path.split("/"):
            raise ValueError(f"{path!r} is not a valid path within a volume")
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / DATA
    old = directory / os.readlink(link) if link.is_symlink() else None
    if old is not None and _current(old) == dict(payload):
        return False
    stamp = datetime.now(UTC).strftime("..%Y_%m_%d_%H_%M_%S.")
    fresh = Path(tempfile.mkdtemp(prefix=stamp, dir=directory))
    fresh.chmod(0o755)
    for path, content in payload.items():
        target = fresh / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.data)
        if group is not None:
            os.chown(target, -1, group)
        target.chmod(content.mode)
    _swap(directory, fresh.name)
    _link_names(directory, {path.split("/")[0] for path in payload})
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _swap(directory: Path, target: str) -> None:
    temporary = directory / "..data_tmp"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.rename(directory / DATA)


def _link_names(directory: Path, names: set[str]) -> None:
    for name in names:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"{DATA}/{name}")
    for entry in directory.iterdir():
        if entry.is_symlink() and not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()


def _current(directory: Path) -> dict[str, FileContent] | None:
    content = {}
    for base, _, names in os.walk(directory):
        for name in names:
            path = Path(base, name)
            try:
                content[str(path.relative_to(directory))] = FileContent(path.read_bytes(), path.stat().st_mode & 0o777)
            except OSError:
                return None
    return content
