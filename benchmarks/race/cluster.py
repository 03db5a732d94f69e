"""etcd and kube-apiserver for one set of runs. Nothing else runs that would take a core."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from devcluster import ports, processes
from devcluster.layout import Layout, write_credentials
from devcluster.ports import LOOPBACK
from devcluster.processes import ProcessRecord, ServiceProcess
from devcluster.services import control_plane
from devcluster.state import StateDirectory
from scheduler.kube.client import ClientConfig

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
_NAMES = ("etcd", "etcd-peer", "kube-apiserver")


@dataclass(frozen=True)
class RaceCluster:
    """What is running."""

    layout: Layout
    etcd: ProcessRecord
    api_server: ProcessRecord

    def client_config(self) -> ClientConfig:
        """How to reach the API server as the administrator."""
        return ClientConfig.load(kubeconfig=self.layout.kubeconfig, context=None, master=None)

    def require_alive(self) -> None:
        """Raise RuntimeError with the end of its log when a server has ended."""
        for record in (self.etcd, self.api_server):
            require_alive(record)


def require_alive(record: ProcessRecord) -> None:
    """Raise RuntimeError with the end of its log when a process has ended."""
    if not processes.is_alive(record):
        raise RuntimeError(f"{record.service} has ended: {processes.last_lines(record.log)}")


@contextlib.contextmanager
def running(binaries: dict[str, Path], data: Path | None = None) -> Iterator[RaceCluster]:
    """Start both below a temporary directory, on a copy of etcd's `data` if given; end them, and whatever was started
    there, afterwards."""
    with tempfile.TemporaryDirectory(prefix="race-") as root:
        directory = StateDirectory(Path(root), "race")
        directory.create()
        if data is not None:
            shutil.copytree(data, Layout(directory.path).data("etcd"))
        started: list[ProcessRecord] = []
        try:
            yield _start(directory, binaries, started)
        finally:
            processes.stop(reversed(started))
            processes.sweep(directory.path)


def _start(directory: StateDirectory, binaries: dict[str, Path], started: list[ProcessRecord]) -> RaceCluster:
    numbers = ports.allocate(_NAMES, {})
    layout = Layout(directory.path)
    write_credentials(layout, directory.name, f"https://{LOOPBACK}:{numbers['kube-apiserver']}", [])
    services: tuple[Callable[[], ServiceProcess], ...] = (
        lambda: control_plane.etcd(binaries["etcd"], layout, numbers),
        lambda: control_plane.kube_apiserver(binaries["kube-apiserver"], layout, numbers, _API_SERVER_FLAGS),
    )
    for make in services:
        service = make()
        record = processes.start(service, directory.path)
        started.append(record)
        processes.wait_ready(service, record)
    return RaceCluster(layout, *started)


def unchecked_tls() -> ssl.SSLContext:
    """TLS to a component's self-signed certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
