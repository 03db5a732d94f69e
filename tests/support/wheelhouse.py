"""Wheels of what is installed here: a reader's pip finds in them what it would fetch from a package index."""

from __future__ import annotations

import importlib.metadata
import zipfile
from collections.abc import Iterable
from pathlib import Path

from tests.support.environments import required_with_extras


def make_wheelhouse(directory: Path, requirements: Iterable[str]) -> Path:
    """Pack the closure of some requirements, such as `hatchling` or `name[extra]`, into wheels; returns the directory.

    Versions are those of this environment, which are the locked ones.
    """
    directory.mkdir(parents=True)
    for distribution in required_with_extras(requirements):
        _pack(distribution, directory)
    return directory


def _pack(distribution: importlib.metadata.Distribution, directory: Path) -> None:
    """A wheel of an installed distribution. Scripts are left out: pip makes those of entry points itself."""
    metadata = distribution.read_text("WHEEL") or ""
    tags = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Tag: ")]
    # "py2-none-any" and "py3-none-any" make "py2.py3-none-any", as in the name of the wheel that was installed.
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*(each.split("-") for each in tags), strict=True))
    name = distribution.name.replace("-", "_")
    files = [
        file
        for file in distribution.files or []
        if ".." not in file.parts and "__pycache__" not in file.parts and file.name not in ("INSTALLER", "RECORD")
    ]
    (record,) = [file for file in distribution.files or [] if file.name == "RECORD"]
    with zipfile.ZipFile(directory / f"{name}-{distribution.version}-{tag}.whl", "w") as wheel:
        for file in files:
            wheel.write(str(file.locate()), str(file))
        wheel.writestr(str(record), "".join(f"{file},,\n" for file in (*files, record)))
