"""Writes a rendering into a directory: its own files replace those of an earlier one, files of others stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from secondary_scheduler.cli.errors import CommandError

MARK = "Rendered by `secondary-scheduler render`"
"""With it every file begins, in a comment: by it a later rendering knows its own files."""
_COMMENTS = ("# ", "{{- /* ", '{\n  "$comment": "')
"""How the comment begins in YAML, in a template, in JSON."""
_FOLDERS = (".", "templates", "crds")
"""Where renderings of any format have files."""


@dataclass(frozen=True)
class RenderedFile:
    """One file.

    Attributes:
        path: relative to the directory.
        text: begins with a comment that begins with `MARK`.
        private: only its owner may read it.
    """

    path: str
    text: str
    private: bool = False


def write_directory(files: Sequence[RenderedFile], directory: Path) -> None:
    """Write the files, and delete what an earlier rendering, of whichever format, left and this one does not have.

    Raises:
        CommandError: a file of somebody else is where one is to be written; nothing was changed.
    """
    targets = {directory / file.path: file for file in files}
    if foreign := sorted(str(path) for path in targets if path.exists() and not _is_ours(path)):
        raise CommandError(f"{foreign[0]}: is not of an earlier rendering; take another directory or remove it")
    for path in _present(directory):
        if _is_ours(path):
            path.unlink()
    for path, file in targets.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        # What is written in clear is at least readable by its owner only.
        path.touch(mode=0o600 if file.private else 0o666)
        path.write_text(file.text, encoding="utf-8")
    for folder in _FOLDERS[1:]:
        _remove_if_empty(directory / folder)


def _present(directory: Path) -> Iterable[Path]:
    folders = (directory / folder for folder in _FOLDERS)
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    beginnings = [f"{comment}{MARK}".encode() for comment in _COMMENTS]
    with path.open("rb") as file:
        return file.read(max(map(len, beginnings))).startswith(tuple(beginnings))


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
