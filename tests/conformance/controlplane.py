"""etcd, kube-apiserver and the real kube-scheduler, without any controller that would touch the cases' objects."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from devcluster import ports, processes, releases
from devcluster.layout import Layout, write_credentials
from devcluster.ports import LOOPBACK
from devcluster.processes import ServiceProcess
from devcluster.progress import SilentReporter
from devcluster.services import control_plane
from devcluster.state import RecordedCluster, StateDirectory
from devcluster.toolchain import binaries
from scheduler.catalog import KubernetesVersion, minor_of, nearest_kubernetes
from tests.conformance import profiles
from tests.conformance.schedulerlog import VMODULE

# ServiceAccount: there is no controller that would make the accounts. TaintNodesByCondition: nor one that would lift
# its taint. StorageObjectInUseProtection: nor one that would remove its finalizer.
_DISABLED_ADMISSION = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection")
_API_SERVER_FLAGS = (
    f"--disable-admission-plugins={','.join(_DISABLED_ADMISSION)}",
    "--audit-policy-file=",
    "--audit-log-path=",
    "--delete-collection-workers=4",
    "--event-ttl=1m",
)
_NAMES = ("etcd", "etcd-peer", "kube-apiserver", "kube-scheduler")


class ControlPlane:
    """What is running: a scheduler, decisions as `kubernetes`, on an API server of the minor `served`; `metrics` is the
    address of its metrics."""

    def __init__(
        self,
        layout: Layout,
        api_server: str,
        log: Path,
        alive: Callable[[], bool],
        kubernetes: KubernetesVersion,
        *,
        served: int,
        metrics: str = "",
    ) -> None:
        self.layout = layout
        self.kubernetes = kubernetes
        self.served = served
        self.metrics = metrics
        self.api_server = api_server
        self.log = log
        self.alive = alive

    def ssl_context(self) -> ssl.SSLContext:
        """TLS as the administrator."""
        context = ssl.create_default_context(cafile=str(self.layout.pki("ca.crt")))
        context.load_cert_chain(str(self.layout.pki("admin.crt")), str(self.layout.pki("admin.key")))
        return context


_OLD_SERVER_FLAGS: dict[int, tuple[str, ...]] = {
    # It watches what only an API server of its own version serves, and waits for that before it schedules.
    37: ("--feature-gates=DRADeviceTaintRules=false",),
}
"""What a scheduler of a minor needs where the API server is older."""


def _scheduler(
    binary: Path, layout: Layout, port: int, kubernetes: KubernetesVersion, *, old_server: bool
) -> ServiceProcess:
    configuration = layout.config("conformance.json")
    configuration.write_text(profiles.configuration(str(layout.kubeconfig), kubernetes))
    return ServiceProcess(
        "kube-scheduler",
        [
            str(binary),
            f"--config={configuration}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--authentication-kubeconfig={layout.kubeconfig}",
            f"--authorization-kubeconfig={layout.kubeconfig}",
            "--authorization-always-allow-paths=/metrics",
            "-v=2",
            f"--vmodule={VMODULE}",
            *(_OLD_SERVER_FLAGS.get(kubernetes.minor, ()) if old_server else ()),
        ],
        ports=[port],
    )


@contextlib.contextmanager
def control_plane_running(
    minor: str | None = None, flags: Sequence[str] = (), scheduler: Path | None = None
) -> Iterator[ControlPlane]:
    """Start everything, below a temporary directory of its own, and end it again.

    `minor` is the real scheduler's, such as `1.36`; None: the one that tests run with. `flags` are further ones of the
    API server. `scheduler` runs in place of the minor's own.
    """
    with tempfile.TemporaryDirectory(prefix="conformance-") as root:
        directory = StateDirectory(Path(root), "oracle")
        try:
            yield _start(directory, minor or releases.chosen(), flags, scheduler)
        finally:
            _stop(directory)


def _binaries(minor: str) -> tuple[dict[str, Path], str]:
    """Return the binaries, and whose API server is among them.

    An API server takes half an hour to build, so one of the minor is used only where it is built already: all but
    what is new in a version can be asked on the default's. A minor without one runs on the lender's only.
    """
    paths = binaries.ensure(["etcd"], SilentReporter())
    paths |= binaries.ensure(["kube-scheduler"], SilentReporter(), minor)
    release = releases.release_of(minor)
    own = binaries.find(binaries.row("kube-apiserver", minor))
    if own is not None or not release.serves or minor in (releases.DEFAULT, releases.chosen()):
        lender = release.borrowed.get(releases.API_SERVER, minor)
        return paths | binaries.ensure(["kube-apiserver"], SilentReporter(), minor), lender
    return paths | binaries.ensure(["kube-apiserver"], SilentReporter(), releases.DEFAULT), releases.DEFAULT


def _start(directory: StateDirectory, minor: str, flags: Sequence[str], binary: Path | None) -> ControlPlane:
    paths, server = _binaries(minor)
    if binary is not None:
        paths["kube-scheduler"] = binary
    old_server = server == releases.DEFAULT != minor
    kubernetes = nearest_kubernetes(minor_of(minor) or 0)
    numbers = ports.allocate(_NAMES, {})
    state = RecordedCluster(name=directory.name, nodes=0, real_nodes=0, ports=numbers, pod_network="", binaries=paths)
    directory.create()
    layout = Layout(directory.path)
    api_server = f"https://{LOOPBACK}:{numbers['kube-apiserver']}"
    write_credentials(layout, directory.name, api_server, [])
    services: tuple[Callable[[], ServiceProcess], ...] = (
        lambda: control_plane.etcd(paths["etcd"], layout, numbers),
        lambda: control_plane.kube_apiserver(paths["kube-apiserver"], layout, numbers, (*_API_SERVER_FLAGS, *flags)),
        lambda: _scheduler(
            paths["kube-scheduler"], layout, numbers["kube-scheduler"], kubernetes, old_server=old_server
        ),
    )
    for make in services:
        service = make()
        record = processes.start(service, directory.path)
        state.processes.append(record)
        directory.write(state)
        processes.wait_ready(service, record)
    scheduler = state.processes[-1]
    # What only one of the two knows cannot be asked.
    served = min(minor_of(server) or 0, minor_of(minor) or 0)
    return ControlPlane(
        layout,
        api_server,
        scheduler.log,
        lambda: processes.is_alive(scheduler),
        kubernetes,
        served=served,
        metrics=f"https://{LOOPBACK}:{numbers['kube-scheduler']}/metrics",
    )


def _stop(directory: StateDirectory) -> None:
    state = directory.read()
    if state is not None:
        processes.stop(reversed(state.processes))
    processes.sweep(directory.path)
    keep = os.environ.get("CONFORMANCE_KEEP_LOG")
    if keep and state is not None:
        Path(keep).write_bytes(b"".join(process.log.read_bytes() for process in state.processes))
