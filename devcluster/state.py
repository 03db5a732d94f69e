"""What is written about a cluster: `cluster.json` in its state directory, and where that directory is."""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from devcluster import releases
from devcluster.errors import ClusterStateError, SpecError
from devcluster.processes import ProcessRecord

# etcd sets 64 MiB aside for its log at once; audit log, events and Prometheus grow to the rest within hours.
_CLUSTER_BYTES = 500 << 20


class Containers(enum.StrEnum):
    """What the containers of real nodes' pods are."""

    PROCESSES = "processes"
    """Of this machine."""
    PODMAN = "podman"


_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")


def default_root() -> Path:
    """`$SECONDARY_SCHEDULER_HOME`, else `~/.local/state/secondary-scheduler`."""
    home = os.environ.get("SECONDARY_SCHEDULER_HOME")
    return Path(home).expanduser().resolve() if home else Path.home() / ".local/state/secondary-scheduler"


def cache_root() -> Path:
    """Where built binaries are kept: `$XDG_CACHE_HOME` or `~/.cache`, then `secondary-scheduler`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "secondary-scheduler"


def foreign_path() -> str:
    """PATH without the `bin` directories of clusters, whose links end with their cluster."""
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(part for part in parts if part and not (Path(part).parent / "cluster.json").exists())


class RecordedCluster(BaseModel):
    """The content of `cluster.json`. It is written before the first process starts and after every further one."""

    model_config = ConfigDict(extra="ignore")

    name: str
    complete: bool = False
    """False while `up` is at work; a cluster found so after its `up` has ended is a leftover."""
    kubernetes: str = releases.DEFAULT
    """Minor release of the control plane."""
    nodes: int
    real_nodes: int
    containers: Containers = Containers.PROCESSES
    ports: dict[str, int]
    pod_network: str
    binaries: dict[str, Path] = Field(default_factory=dict)
    processes: list[ProcessRecord] = Field(default_factory=list)


class StateDirectory:
    """The state directory of one cluster: `<root>/clusters/<name>`.

    Raises SpecError for a name that could not be a directory and a Kubernetes context.
    """

    def __init__(self, root: Path, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise SpecError(
                f"cluster name {name!r}: use at most 30 lower-case letters, digits and '-', "
                f"beginning and ending with a letter or digit"
            )
        self.name = name
        self.clusters = root / "clusters"
        self.path = self.clusters / name
        self.file = self.path / "cluster.json"

    def read(self) -> RecordedCluster | None:
        """The cluster's state; None when there is no such cluster.

        Raises ClusterStateError when the file cannot be read or is not ours.
        """
        try:
            text = self.file.read_text()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ClusterStateError(f"{self.file}: {error.strerror}; is it another user's cluster?") from error
        try:
            return RecordedCluster.model_validate_json(text)
        except ValidationError as error:
            raise ClusterStateError(
                f"{self.file} is damaged ({error.error_count()} errors): "
                f"stop the cluster with: secondary-scheduler cluster down --name {self.name}"
            ) from error

    def write(self, state: RecordedCluster) -> None:
        """Replace `cluster.json` in one step, so that a reader never sees half of it."""
        temporary = self.file.with_suffix(".tmp")
        temporary.write_text(state.model_dump_json(indent=2))
        temporary.replace(self.file)

    def create(self) -> None:
        """Make the directory and its parts, readable by the owner only.

        Raises ClusterStateError when the disk has no room for the databases and logs of a cluster.
        """
        self.clusters.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.clusters).free
        if free < _CLUSTER_BYTES:
            raise ClusterStateError(
                f"{self.clusters} has {free >> 20} MiB free and a cluster needs {_CLUSTER_BYTES >> 20}: "
                f"free some space, or set SECONDARY_SCHEDULER_HOME to a directory on another disk"
            )
        for part in (self.path, *(self.path / name for name in ("logs", "pki", "config", "data", "bin", "pulumi"))):
            part.mkdir(mode=0o700, exist_ok=True)

    def remove(self) -> None:
        """Remove the directory with everything in it."""
        # The control plane's last writes may race the removal once.
        for _ in range(3):
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.path.exists():
                return
        raise ClusterStateError(f"{self.path} cannot be removed: delete it by hand")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the cluster for one command. Raises ClusterStateError when another command holds it."""
        file = self.clusters / f".{self.name}.lock"
        descriptor = self._acquire(file)
        try:
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            file.unlink(missing_ok=True)
            os.close(descriptor)

    def _acquire(self, file: Path) -> int:
        while True:
            try:
                self.clusters.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise ClusterStateError(
                    f"{self.clusters}: {error.strerror}; set SECONDARY_SCHEDULER_HOME to a writable directory"
                ) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(descriptor, 32, 0).decode() or "unknown"
                os.close(descriptor)
                raise ClusterStateError(
                    f"another command (process {holder}) is using cluster {self.name}: wait for it, or stop it"
                ) from error
            # The previous holder removes the file, so the file that we locked may already be unlinked.
            with contextlib.suppress(FileNotFoundError):
                if os.stat(file).st_ino == os.fstat(descriptor).st_ino:
                    return descriptor
            os.close(descriptor)


def cluster_names(root: Path) -> list[str]:
    """Names of all clusters that have a state directory."""
    return sorted(path.parent.name for path in (root / "clusters").glob("*/cluster.json"))


def name_in(kubeconfig: str, root: Path) -> str | None:
    """The cluster whose kubeconfig this is, as `$KUBECONFIG` names it; None where it is none of ours."""
    path = Path(kubeconfig).expanduser().resolve()
    return next((name for name in cluster_names(root) if path.parent == (root / "clusters" / name).resolve()), None)


def other_clusters(root: Path, name: str) -> list[RecordedCluster]:
    """States of the other clusters under the same root; unreadable ones are left out."""
    states: list[RecordedCluster] = []
    for other in cluster_names(root):
        if other == name:
            continue
        with contextlib.suppress(ClusterStateError):
            state = StateDirectory(root, other).read()
            if state is not None:
                states.append(state)
    return states
