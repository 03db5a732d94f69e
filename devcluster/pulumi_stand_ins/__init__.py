"""Stand-ins for `pulumi-language-python` and `pulumi-resource-kubernetes`, for machines without the official ones.

They speak the official plugins' gRPC protocols to the real engine, and are put on PATH only by our own commands and
tests: no Pulumi.yaml names them, so where the official plugins are installed nothing changes. Their limits are in
docs/pulumi-stand-ins.md.
"""

import os
import shutil
from pathlib import Path

LANGUAGE_HOST = "pulumi-language-python"
KUBERNETES_PROVIDER = "pulumi-resource-kubernetes"
# The programs that come along with each official plugin.
_FILES = {
    LANGUAGE_HOST: (LANGUAGE_HOST, "pulumi-language-python-exec", "pulumi-analyzer-policy-python"),
    KUBERNETES_PROVIDER: (KUBERNETES_PROVIDER,),
}
_PLUGIN_FOLDERS = {LANGUAGE_HOST: "language-python-v*", KUBERNETES_PROVIDER: "resource-kubernetes-v*"}


def stand_in_bin_dir() -> Path:
    """The directory with the executables of all stand-ins."""
    return Path(__file__).resolve().parent / "bin"


def missing_official_plugins(path: str | None = None, pulumi_home: Path | None = None) -> frozenset[str]:
    """The names of the plugins that the engine would not find without our help.

    Looks where the engine looks: `path` (default $PATH), beside the pulumi binary found there, and the plugin cache
    under `pulumi_home` (default $PULUMI_HOME, else ~/.pulumi). Our own stand-ins do not count, wherever linked.
    """
    path = os.environ.get("PATH", "") if path is None else path
    home = pulumi_home or Path(os.environ.get("PULUMI_HOME") or "~/.pulumi").expanduser()
    directories = [Path(entry) for entry in path.split(os.pathsep) if entry]
    pulumi = shutil.which("pulumi", path=path)
    if pulumi:
        directories.append(Path(pulumi).resolve().parent)
    return frozenset(name for name in _FILES if not _is_official_there(name, directories, home))


def _is_official_there(name: str, directories: list[Path], home: Path) -> bool:
    cached = [folder / name for folder in (home / "plugins").glob(_PLUGIN_FOLDERS[name])]
    candidates = [directory / name for directory in directories] + cached
    own = stand_in_bin_dir()
    return any(os.access(file, os.X_OK) and file.resolve().parent != own for file in candidates if file.is_file())


def link_stand_ins(directory: Path, names: frozenset[str]) -> list[Path]:
    """Make `directory` hold the stand-ins of exactly these plugins, as symbolic links, and return those.

    A directory with all of them on PATH would hide an official plugin: the engine looks at PATH first.
    """
    directory.mkdir(parents=True, exist_ok=True)
    links = []
    for name, files in _FILES.items():
        for file in files:
            link = directory / file
            if link.is_symlink() and link.resolve().parent == stand_in_bin_dir():
                link.unlink()
            if name in names:
                link.symlink_to(stand_in_bin_dir() / file)
                links.append(link)
    return links
