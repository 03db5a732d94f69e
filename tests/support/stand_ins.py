"""Linking the Pulumi stand-ins for a test, where the official plugins are absent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from devcluster.pulumi_stand_ins import BIN, KUBERNETES_PROVIDER, LANGUAGE_HOST

BOTH = frozenset({LANGUAGE_HOST, KUBERNETES_PROVIDER})
# The programs that come along with each official plugin.
FILES = {
    LANGUAGE_HOST: (LANGUAGE_HOST, "pulumi-language-python-exec", "pulumi-analyzer-policy-python"),
    KUBERNETES_PROVIDER: (KUBERNETES_PROVIDER,),
}
_PLUGIN_FOLDERS = {LANGUAGE_HOST: "language-python-v*", KUBERNETES_PROVIDER: "resource-kubernetes-v*"}


def missing_official_plugins(path: str | None = None, pulumi_home: Path | None = None) -> frozenset[str]:
    """The names of the plugins that the engine would not find without our stand-ins.

    Looks where the engine looks: `path` (default $PATH), beside the pulumi binary found there, and the plugin cache
    under `pulumi_home` (default $PULUMI_HOME, else ~/.pulumi). Our own stand-ins do not count, wherever linked.
    """
    path = os.environ.get("PATH", "") if path is None else path
    home = pulumi_home or Path(os.environ.get("PULUMI_HOME") or "~/.pulumi").expanduser()
    directories = [Path(entry) for entry in path.split(os.pathsep) if entry]
    pulumi = shutil.which("pulumi", path=path)
    if pulumi:
        directories.append(Path(pulumi).resolve().parent)
    return frozenset(name for name in FILES if not _is_official_installed(name, directories, home))


def _is_official_installed(name: str, directories: list[Path], home: Path) -> bool:
    cached = [folder / name for folder in (home / "plugins").glob(_PLUGIN_FOLDERS[name])]
    candidates = [directory / name for directory in directories] + cached
    return any(os.access(file, os.X_OK) and file.resolve().parent != BIN for file in candidates if file.is_file())


def link_stand_ins(directory: Path, names: frozenset[str]) -> list[Path]:
    """Make `directory` hold the stand-ins of exactly these plugins, as symbolic links, and return those.

    A directory with all of them on PATH would hide an official plugin: the engine looks at PATH first.
    """
    directory.mkdir(parents=True, exist_ok=True)
    links = []
    for name, files in FILES.items():
        for file in files:
            link = directory / file
            if link.is_symlink() and link.resolve().parent == BIN:
                link.unlink()
            if name in names:
                link.symlink_to(BIN / file)
                links.append(link)
    return links
