"""etcd and kube-apiserver for one set of runs. Nothing else runs that would take a core."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from devcluster import ports, processes
from devcluster.layout import Layout, write_credentials
from devcluster.ports import LOOPBACK
from devcluster.processes import ProcessRecord
from devcluster.progress import SilentReporter
from devcluster.services import control_plane
from devcluster.state import StateDirectory
from devcluster.toolchain import binaries
from scheduler.kube.client import ClientConfig, KubeClient

_SERVERS = ("etcd", "kube-apiserver")
# ServiceAccount: there is no controller that would make the accounts. TaintNodesByCondition: nor one that would lift
# its taint. StorageObjectInUseProtection: nor one that would remove its finalizer. Priority: pods state their
# priority themselves, as in scheduler_perf.
_DISABLED_ADMISSION = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection", "Priority")
_API_SERVER_FLAGS = (
    f"--disable-admission-plugins={','.join(_DISABLED_ADMISSION)}",
    "--audit-policy-file=",
    "--audit-log-path=",
    "--delete-collection-workers=8",
)


@dataclass(frozen=True)
class ControlPlane:
    """What is running, and the executables of this run by name."""

    layout: Layout
    binaries: dict[str, Path]
    etcd: ProcessRecord
    api_server: ProcessRecord

    def client_config(self) -> ClientConfig:
        """How to reach the API server as the administrator."""
        return ClientConfig.load(kubeconfig=self.layout.kubeconfig, context=None, master=None)

    def client(self, user_agent: str, config: ClientConfig | None = None) -> KubeClient:
        """A client without a limit on its rate, the administrator's by default."""
        return KubeClient(config or self.client_config(), qps=0, user_agent=user_agent, timeout=300)

    def require_alive(self) -> None:
        """Raise RuntimeError with the end of its log when a server has ended."""
        for record in (self.etcd, self.api_server):
            require_alive(record)


def require_alive(record: ProcessRecord) -> None:
    """Raise RuntimeError with the end of its log when a process has ended."""
    if not processes.is_alive(record):
        raise RuntimeError(f"{record.service} has ended: {processes.last_lines(record.log)}")


def executables(*contestants: str) -> dict[str, Path]:
    """The servers and the contestants by name; what is missing is built."""
    return binaries.ensure([*_SERVERS, *sorted(set(contestants))], SilentReporter())


@contextlib.contextmanager
def running(paths: dict[str, Path], data: Path | None = None) -> Iterator[ControlPlane]:
    """Start both below a temporary directory, on a copy of etcd's `data` if given; end them, and whatever was started
    there, afterwards."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as root:
        directory = StateDirectory(Path(root), "benchmark")
        directory.create()
        layout = Layout(directory.path)
        if data is not None:
            shutil.copytree(data, layout.data("etcd"))
        started: list[ProcessRecord] = []
        try:
            for record in _start(layout, paths):
                started.append(record)
            yield ControlPlane(layout, paths, *started)
        finally:
            processes.stop(reversed(started))
            processes.sweep(layout.root)


def _start(layout: Layout, paths: dict[str, Path]) -> Iterable[ProcessRecord]:
    numbers = ports.allocate(("etcd", "etcd-peer", "kube-apiserver"), {})
    write_credentials(layout, "benchmark", f"https://{LOOPBACK}:{numbers['kube-apiserver']}", [])
    for service in (
        control_plane.etcd(paths["etcd"], layout, numbers),
        control_plane.kube_apiserver(paths["kube-apiserver"], layout, numbers, _API_SERVER_FLAGS),
    ):
        record = processes.start(service, layout.root)
        # Before it is waited for: one that never gets ready is ended, too.
        yield record
        processes.wait_ready(service, record)
