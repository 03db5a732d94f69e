"""A reader of the pages: an origin to clone from, a machine with the tools that the pages take for granted, a shell.

Nothing of the checkout's own environment is on PATH or can be imported: what the reader has is what the pages had them
install. The package index is a directory of wheels, the address of the repository is rewritten by git, and the
stand-in language host, which installs nothing, finds `.venv` made from the lock file as the official one leaves it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from devcluster.toolchain.binaries import BINARIES, find
from scheduler import __version__
from tests.support.environments import make_locked_environment
from tests.support.pages import CHECKOUT, JOURNEYS, Shell, followed
from tests.support.stand_ins import link_stand_ins, missing_official_plugins
from tests.support.wheelhouse import make_wheelhouse
from tools.version import next_patch

ORIGIN = "https://git.example.com/platform/secondary-scheduler"
NEXT_VERSION = f"v{next_patch(__version__)}"
_NOT_CLONED = shutil.ignore_patterns(
    *(".git", ".venv", "tests", "benchmarks", "docs", "image", "__pycache__", ".*_cache", "modules", "Pulumi.*.yaml")
)
_EXAMPLES = ("local", "openshift-prod")
# What pip needs for `.[cli]` and for building it and the example of a plugin.
_REQUIREMENTS = ("secondary-scheduler[cli]", "hatchling", "editables")
_TOOLS = ("bash", "kubectl", "git", "jq")


def make_origin(directory: Path, former: Path | None = None) -> Path:
    """A repository whose branch main is the project as it stands here, or a former version of it, and a later version
    as a tag: of the project as it stands here the next one, of a former version this one."""
    shutil.copytree(former or CHECKOUT, directory, ignore=_NOT_CLONED)
    _copy_examples(directory, former or CHECKOUT)
    git = ["git", "-C", str(directory), "-c", "user.name=origin", "-c", "user.email=origin@example.com"]

    def run(*commands: tuple[str, ...]) -> None:
        for command in commands:
            subprocess.run([*git, *command], check=True, capture_output=True)

    first = ("commit", "--quiet", "--message=First version")
    run(("init", "--quiet", "--initial-branch=main"), ("add", "--all"), first)
    run(("switch", "--quiet", "--create", "next"))
    if former is not None:
        run(("rm", "--quiet", "-r", "."))
        shutil.copytree(CHECKOUT, directory, ignore=_NOT_CLONED, dirs_exist_ok=True)
        _copy_examples(directory, CHECKOUT)
        run(("add", "--all"))
    run(("commit", "--quiet", "--allow-empty", "--message=Next version"))
    run(("tag", NEXT_VERSION if former is None else f"v{__version__}"), ("switch", "--quiet", "main"))
    return directory


def _copy_examples(directory: Path, version: Path) -> None:
    for name in _EXAMPLES:
        shutil.copy(version / "stacks" / f"Pulumi.{name}.yaml", directory / "stacks")


class Reader:
    """A reader with a machine and, once a page had it cloned, a clone of the project.

    Attributes:
        environment: what the shell begins with.
        home: the directory in which the reader begins.

    With `former`, the tree of a former version, the reader begins with that one.
    """

    def __init__(
        self,
        directory: Path,
        values: Mapping[str, str],
        environment: Mapping[str, str],
        former: Path | None = None,
    ) -> None:
        self.home = directory / "home"
        for name in ("home", "bin", "state", "pulumi"):
            (directory / name).mkdir(parents=True)
        origin = make_origin(directory / "origin", former)
        pulumi = find(BINARIES["pulumi"])
        assert pulumi is not None, "the pulumi binary is not built; run `secondary-scheduler cluster up` once"
        (directory / "bin" / "pulumi").symlink_to(pulumi)
        link_stand_ins(directory / "bin", missing_official_plugins())
        wheels = make_wheelhouse(directory / "wheels", _REQUIREMENTS)
        people = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (("NAME", "reader"), ("EMAIL", "reader@example.com"))
        }
        self.environment = {
            "PATH": f"{directory / 'bin'}{os.pathsep}{_system_path()}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "COLUMNS": "160",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.file://{origin}.insteadOf",
            "GIT_CONFIG_VALUE_0": ORIGIN,
            **people,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",
            "PULUMI_BACKEND_URL": f"file://{directory / 'state'}",
            "PULUMI_HOME": str(directory / "pulumi"),
            "PULUMI_CONFIG_PASSPHRASE": "local",
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            "PULUMI_SKIP_CONFIRMATIONS": "true",  # the reader's "yes"
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "1",
            "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING": "1",
            **environment,
        }
        before = {"pulumi install": _install_locked}
        self.shell = Shell(self.home, self.environment, values, directory / "shell", before)

    def clone(self) -> None:
        """Clone and install, for a journey whose first page takes both for granted."""
        for block in followed("kubernetes", JOURNEYS["openshift"][0]):
            self.shell.follow(block)

    def follow(self, journey: str, step: str) -> None:
        """Do what a page says, as far as that journey goes."""
        for block in followed(journey, step):
            self.shell.follow(block)


def _install_locked(clone: Path) -> None:
    if not (clone / ".venv").exists():
        make_locked_environment(clone / ".venv", clone / "requirements.txt")


def _system_path() -> str:
    """The directories of the tools that the pages take for granted, and of the system's own."""
    folders = [str(Path(tool).parent) for name in _TOOLS if (tool := shutil.which(name, path=os.environ["PATH"]))]
    venv = str(CHECKOUT / ".venv")
    ours = [folder for folder in dict.fromkeys([*folders, *os.defpath.split(os.pathsep)]) if folder]
    return os.pathsep.join(folder for folder in ours if not folder.startswith(venv))
