"""Tier ``mounts``: a root of its own, by namespaces and bind mounts; works as root and as an ordinary user.

The user namespace maps exactly one id, the one the container asks for, to the user who runs the agent. So the process
sees itself as runAsUser, without capabilities, while the host's Python environment below a private home stays readable.

The root shows the host's top-level directories read-only. A directory that a volume must appear in, though the host has
no such mount point, is *opened*: created on a tmpfs, with each of the host's entries bound or linked into it.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from devcluster.node_agent.sandbox.base import LaunchRequest, VolumeMount

Operation = list[Any]

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Never shown to a container: they hold the host's sockets and other programs' files. They start empty, as in an image.
EMPTY = ("/run", "/tmp", "/var/tmp")  # noqa: S108 - paths inside the container
# Where the resolver's file really stands on hosts with systemd-resolved; /etc/resolv.conf links to it.
RESOLVER = "/run/systemd/resolve"
MAX_LINKS = 40
_PACKAGE_ROOT = Path(__file__).resolve().parents[3]


class MountSandbox:
    """See the module's description. ``masked`` are host paths no container may see."""

    tier = "mounts"

    def __init__(self, root: Path, masked: Sequence[Path]) -> None:
        """``root``: an empty directory that serves as mount point in every container's own namespace."""
        self._root = root
        self._masked = [str(path.resolve()) for path in masked if path.exists()]
        self._visible = _runtime_paths()

    def launch_spec(self, request: LaunchRequest) -> dict[str, Any]:
        """See ``base.Sandbox``."""
        return {
            "role": "mounts",
            "root": str(self._root),
            "operations": plan_root(request.mounts, visible=(*self._visible, *request.host_paths), masked=self._masked),
            "readOnlyRoot": request.security.read_only_root,
            "hostname": request.hostname,
            "uid": request.security.uid,
            "gid": request.security.gid,
            **_process(request, (*request.host_command, *request.args)),
        }

    def exec_spec(
        self, request: LaunchRequest, host_command: Sequence[str], args: Sequence[str], pid: int
    ) -> dict[str, Any]:
        """See ``base.Sandbox``."""
        return {"role": "exec", "enter": pid, **_process(request, (*host_command, *args))}

    def volume_text(self, mounts: Sequence[VolumeMount], data: bytes) -> bytes:
        """Unchanged: every path exists as written."""
        return data


def _process(request: LaunchRequest, argv: Sequence[str]) -> dict[str, Any]:
    return {
        "argv": list(argv),
        "env": dict(request.env),
        "cwd": request.working_dir,
        "hardening": True,
        "noNewPrivs": request.security.no_new_privileges,
        "capabilities": list(request.security.capabilities),
    }


def _runtime_paths() -> tuple[str, ...]:
    """What our own commands need, wherever it was installed: the environment, its base and the checkout."""
    paths = {sys.prefix, sys.base_prefix, str(_PACKAGE_ROOT)}
    return tuple(sorted({path for path in (*paths, *(os.path.realpath(path) for path in paths)) if path != "/"}))


# --- the root, planned: pure, but for `list_host` ---------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class HostEntry:
    """One entry of a host directory: link is its target if it is a symbolic link, else empty."""

    name: str
    is_dir: bool
    link: str = ""


Lister = Callable[[str], list[HostEntry] | None]


def list_host(path: str) -> list[HostEntry] | None:
    """The entries of a host directory that a container may see, or None if it is no readable directory."""
    entries = []
    try:
        with os.scandir(path) as listing:
            for entry in listing:
                if entry.is_symlink():
                    entries.append(HostEntry(entry.name, False, os.readlink(entry.path)))
                elif entry.is_dir() or stat.S_ISREG(entry.stat().st_mode):
                    entries.append(HostEntry(entry.name, entry.is_dir()))
    except OSError:
        return None
    return sorted(entries, key=lambda entry: entry.name)


class _Planner:
    """Turns mounts into operations in an order in which each mount point exists when it is needed."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._cache: dict[str, dict[str, HostEntry] | None] = {}
        self.opened: set[str] = set()
        self._covered: list[str] = []
        self.operations: list[Operation] = []

    def entries(self, path: str) -> dict[str, HostEntry] | None:
        """The host's entries at path by name; what stands in an EMPTY directory does not exist for us."""
        if _is_below(path, EMPTY):
            return None
        if path not in self._cache:
            listed = self._lister(path)
            self._cache[path] = None if listed is None else {entry.name: entry for entry in listed}
        return self._cache[path]

    def resolve(self, path: str) -> str:
        """Where path leads once the host's symbolic links on the way are followed (/var/run -> /run)."""
        parts, done, links = [part for part in PurePosixPath(path).parts if part != "/"], "", 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            siblings = self.entries(done or "/")
            entry = siblings.get(part) if siblings else None
            if entry is None or not entry.link or links == MAX_LINKS:
                done = f"{done}/{part}"
                continue
            links += 1
            target = PurePosixPath(entry.link)
            if target.is_absolute():
                done = ""
            parts = [piece for piece in target.parts if piece not in ("/", ".")] + parts
        return done or "/"

    def open(self, path: str, pinned: set[str]) -> None:
        """Make path on the tmpfs and bind the host's entries into it, but for those that are opened or mounted too."""
        self.opened.add(path)
        if path != "/":
            mode = 0o1777 if path in ("/tmp", "/var/tmp") else 0o755  # noqa: S108
            self.operations.append(["dir", path, mode])
        for name, entry in (self.entries(path) or {}).items():
            child = f"{path.rstrip('/')}/{name}"
            if child in pinned or child in EMPTY:
                continue
            if entry.link:
                self.operations.append(["symlink", child, entry.link])
            else:
                self.operations.append(["bind", child, child, True])

    def covered(self, path: str) -> bool:
        """Whether path lies in something already mounted that is not one of our opened directories."""
        return _is_below(path, self._covered)

    def bind(self, mount: VolumeMount) -> None:
        self._covered.append(mount.path)
        self.operations.append(["bind", mount.path, mount.source, mount.read_only])


def _parents(path: str) -> list[str]:
    parents = [str(parent) for parent in PurePosixPath(path).parents]
    return parents[::-1]


def _devices() -> list[Operation]:
    operations: list[Operation] = [["tmpfs", "/dev", "mode=0755,size=64k"]]
    operations += [["bind", f"/dev/{name}", f"/dev/{name}", False] for name in DEVICES]
    links = {
        "fd": "/proc/self/fd",
        "stdin": "/proc/self/fd/0",
        "stdout": "/proc/self/fd/1",
        "stderr": "/proc/self/fd/2",
    }
    operations += [["symlink", f"/dev/{name}", target] for name, target in links.items()]
    operations.append(["tmpfs", "/dev/shm", "mode=1777,size=64m"])  # noqa: S108 - a mount point in the container
    return operations


def plan_root(
    mounts: Iterable[VolumeMount],
    *,
    visible: Sequence[str] = (),
    masked: Sequence[str] = (),
    lister: Lister = list_host,
) -> list[Operation]:
    """The launcher's operations for a root with these mounts.

    ``visible``: host paths that must be readable although a volume or an empty directory covers them (the Python
    environment when it stands under /tmp). ``masked``: existing host paths hidden from the container (other
    pods' secrets).
    """
    planner = _Planner(lister)
    mount_at = {planner.resolve(mount.path): mount for mount in mounts}
    resolver = [VolumeMount(RESOLVER, RESOLVER, True)] if lister(RESOLVER) is not None else []
    inner = [VolumeMount(path, mount.source, mount.read_only) for path, mount in mount_at.items()] + resolver
    hidden = (*EMPTY, *mount_at)
    inner += [VolumeMount(path, path, True) for path in visible if _is_below(path, hidden)]
    inner.sort(key=lambda mount: (mount.path.count("/"), mount.path))

    devices = [mount for mount in inner if mount.path.startswith("/dev/")]
    ordinary = [mount for mount in inner if mount not in devices]
    pinned = {"/proc", "/dev", "/sys", *EMPTY, *(mount.path for mount in ordinary)}
    pinned |= {parent for path in (*EMPTY, *(mount.path for mount in ordinary)) for parent in _parents(path)}
    planner.open("/", pinned)
    planner.operations += [["proc", "/proc"], ["bind", "/sys", "/sys", True], *_devices()]
    for path in EMPTY:
        if path not in mount_at:
            for parent in (*_parents(path), path):
                if parent not in planner.opened:
                    planner.open(parent, pinned)
    for mount in ordinary:
        for parent in _parents(mount.path):
            if parent not in planner.opened and not planner.covered(parent):
                planner.open(parent, pinned)
        planner.bind(mount)
    for mount in devices:
        planner.bind(mount)
    planner.operations.append(["ro", "/dev"])
    for path in masked:
        planner.operations += _mask(planner.resolve(path), visible, hidden, lister)
    return planner.operations


def _mask(path: str, shown: Sequence[str], hidden: Sequence[str], lister: Lister) -> list[Operation]:
    """Cover a host path, unless it is not to be seen anyway."""
    if _is_below(path, hidden) and not _is_below(path, shown):
        return []
    if lister(path) is not None:
        return [["tmpfs", path, "mode=0000,size=4k"], ["ro", path]]
    return [["bind", path, "/dev/null", True]]


def _is_below(path: str, outer: Iterable[str]) -> bool:
    return any(path == other or path.startswith(other + "/") for other in outer)
