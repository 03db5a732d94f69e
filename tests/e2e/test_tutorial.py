"""The tutorial, as it stands there, on the cluster that it has the reader start."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.pages import CHECKOUT, TUTORIAL, Shell, followed

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "build", ".hypothesis")


def clone_of_the_checkout(directory: Path) -> Path:
    """The checkout as it is, committed, without its environment."""
    shutil.copytree(CHECKOUT, directory, ignore=_NOT_COPIED, symlinks=True)
    git = ["git", "-C", str(directory), "-c", "user.name=reader", "-c", "user.email=reader@example.com"]
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message=As cloned")):
        subprocess.run([*git, *command], check=True, capture_output=True)
    return directory


def test_every_command_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    clone = clone_of_the_checkout(tmp_path / "clone")
    # The reader's home has the binaries that were built before; clusters and caches of others are not touched.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "LANG", "PYTHON", "TMPDIR") or name.startswith(("PIP_", "XDG_", "SSL_"))
    }
    venv = str(CHECKOUT / ".venv")
    folders = [folder for folder in environment["PATH"].split(os.pathsep) if not folder.startswith(venv)]
    environment |= {"PATH": os.pathsep.join(folders), "XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "160"}
    shell = Shell(clone, environment, {}, tmp_path / "shell")
    try:
        for block in followed("tutorial", TUTORIAL):
            shell.follow(block)
    finally:
        shell.run(".venv/bin/secondary-scheduler cluster down --name tutorial")
