"""A control plane whose parts a test may kill, stop, restart and double, and whose whole history can be read.

etcd stores the objects as JSON and nothing compacts it, so that every state of every object can be read in the end, in
the order in which it became true. No controller runs that would touch what a test made, unless a scenario starts one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from devcluster import ports, processes
from devcluster.layout import Layout, write_credentials
from devcluster.ports import LOOPBACK
from devcluster.processes import ProcessRecord, ServiceProcess
from devcluster.progress import SilentReporter
from devcluster.services import control_plane
from devcluster.state import RecordedCluster, StateDirectory
from devcluster.toolchain import binaries

ETCD, API_SERVER, SECOND_API_SERVER = "etcd", "kube-apiserver", "kube-apiserver-2"
CONTROLLER_MANAGER = "kube-controller-manager"
_BINARIES = ("etcd", "kube-apiserver", "kube-scheduler")
_PORTS = ("etcd", "etcd-peer", API_SERVER, SECOND_API_SERVER, CONTROLLER_MANAGER)
# As for the conformance tests: no controller would make accounts, lift the taint or remove the finalizer.
_DISABLED_ADMISSION = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection")
_AUDITED = [
    {"group": "", "resources": ["pods", "pods/binding", "bindings", "nodes"]},
    {"group": "coordination.k8s.io", "resources": ["leases"]},
]
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "RequestResponse", "resources": _AUDITED},
        {"level": "Metadata"},
    ],
}
"""Every write with its body, where the oracle judges it."""


class FaultPlane:
    """etcd and one or two API servers as processes of ours. Made by `fault_plane`."""

    def __init__(
        self, directory: StateDirectory, flags: tuple[str, ...] = (), etcd_flags: tuple[str, ...] = ()
    ) -> None:
        self._directory = directory
        self._flags = flags
        self.etcd_flags = etcd_flags
        """Win over ours from its next start on."""
        self.controllers = "*"
        """Which ones a controller manager runs, from its next start on."""
        self._paths = dict(binaries.ensure(list(_BINARIES), SilentReporter()))
        self.ports = ports.allocate(_PORTS, {})
        self._state = RecordedCluster(
            name=directory.name, nodes=0, real_nodes=0, ports=self.ports, pod_network="", binaries=self._paths
        )
        directory.create()
        self.layout = Layout(directory.path)
        write_credentials(self.layout, directory.name, self.api_server, [])
        self.layout.config("audit-policy-all.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))
        self._running: dict[str, ProcessRecord] = {}

    @property
    def api_server(self) -> str:
        """The first API server's address."""
        return f"https://{LOOPBACK}:{self.ports[API_SERVER]}"

    @property
    def second_api_server(self) -> str:
        """The second one's, where `start` was called for it."""
        return f"https://{LOOPBACK}:{self.ports[SECOND_API_SERVER]}"

    @property
    def etcd(self) -> str:
        """etcd's address."""
        return f"http://{LOOPBACK}:{self.ports['etcd']}"

    @property
    def audit_logs(self) -> list[Path]:
        """Of every API server so far."""
        return sorted(self.layout.audit_log.parent.glob("audit*.log"))

    def binary(self, kind: str) -> Path:
        """The kube-scheduler of upstream, or that of scheduler-plugins."""
        if kind == "scheduler-plugins" and kind not in self._paths:
            self._paths |= binaries.ensure([kind], SilentReporter())
        return self._paths[kind if kind in self._paths else "kube-scheduler"]

    def use_api_server_of(self, minor: str) -> None:
        """Start API servers of that minor release of Kubernetes from now on."""
        self._paths |= binaries.ensure([API_SERVER], SilentReporter(), minor)

    def ssl_context(self) -> ssl.SSLContext:
        """TLS as the administrator."""
        context = ssl.create_default_context(cafile=str(self.layout.pki("ca.crt")))
        context.load_cert_chain(str(self.layout.pki("admin.crt")), str(self.layout.pki("admin.key")))
        return context

    def start(self, name: str, etcd_port: int | None = None) -> None:
        """Start a part and wait until it is ready; `etcd_port` leads an API server to etcd by another way."""
        service = self._service(name, etcd_port)
        record = processes.start(service, self._directory.path)
        self._running[name] = record
        self._state.processes = list(self._running.values())
        self._directory.write(self._state)
        processes.wait_ready(service, record)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Signal a part."""
        os.killpg(self._running[name].pid, number)

    def alive(self, name: str) -> bool:
        """Whether a part runs."""
        return processes.is_alive(self._running[name])

    def kill(self, name: str) -> None:
        """End a part without warning, and see that it is gone."""
        self.signal(name, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._running[name].pid, 0)

    def restart(self, name: str) -> None:
        """Kill a part and start it again."""
        self.kill(name)
        self.start(name)

    def copy_etcd(self, directory: Path) -> None:
        """Copy etcd's data as they are at a moment."""
        self.signal(ETCD, signal.SIGSTOP)
        try:
            shutil.copytree(self.layout.data("etcd"), directory)
        finally:
            self.signal(ETCD, signal.SIGCONT)

    def put_back(self, directory: Path, *, restart: bool = True) -> None:
        """Put etcd back to a copy. `restart`: with the API server stopped meanwhile, as Kubernetes asks for."""

        def restore(data: Path) -> None:
            shutil.copytree(directory, data)

        self._restore(restore, restart=restart)

    def put_back_bumped(self, snapshot: Path) -> None:
        """Put etcd back to a snapshot (`etcd.save_snapshot`) in the way that spares clients a version used twice."""
        peer = f"http://{LOOPBACK}:{self.ports['etcd-peer']}"
        member = [f"--initial-cluster=local={peer}", f"--initial-advertise-peer-urls={peer}", "--name=local"]
        etcdutl = binaries.ensure(["etcdutl"], SilentReporter())["etcdutl"]

        def restore(data: Path) -> None:
            command = [str(etcdutl), "snapshot", "restore", str(snapshot), f"--data-dir={data}", *member]
            bump = ["--bump-revision=1000000000", "--mark-compacted"]
            subprocess.run([*command, *bump], check=True, capture_output=True)

        self._restore(restore, restart=True)

    def _restore(self, restore: Callable[[Path], None], *, restart: bool) -> None:
        data = self.layout.data("etcd")
        if restart:
            self.kill(API_SERVER)
        self.kill(ETCD)
        shutil.rmtree(data)
        restore(data)
        self.start(ETCD)
        if restart:
            self.start(API_SERVER)

    def _service(self, name: str, etcd_port: int | None) -> ServiceProcess:
        if name == ETCD:
            service = control_plane.etcd(self._paths["etcd"], self.layout, self.ports)
            return replace(service, argv=[*service.argv, *self.etcd_flags])
        if name == CONTROLLER_MANAGER:
            self._paths |= binaries.ensure([CONTROLLER_MANAGER], SilentReporter())
            service = control_plane.kube_controller_manager(self._paths[name], self.layout, self.ports)
            return replace(service, argv=[*service.argv, f"--controllers={self.controllers}"])
        numbers = {**self.ports, "kube-apiserver": self.ports[name]}
        if etcd_port is not None:
            numbers["etcd"] = etcd_port
        suffix = "" if name == API_SERVER else "-2"
        audit = self.layout.audit_log.with_name(f"audit{suffix}.log")
        flags = (
            f"--disable-admission-plugins={','.join(_DISABLED_ADMISSION)}",
            "--storage-media-type=application/json",
            "--etcd-compaction-interval=0",
            f"--audit-policy-file={self.layout.config('audit-policy-all.yaml')}",
            f"--audit-log-path={audit}",
            # In MB. With 0 it is rotated at 100 MB, and all but the newest two files are deleted.
            "--audit-log-maxsize=1000000",
            "--delete-collection-workers=4",
            *self._flags,
        )
        service = control_plane.kube_apiserver(self._paths["kube-apiserver"], self.layout, numbers, flags)
        return replace(service, name=name)

    def stop(self) -> None:
        """End everything."""
        for record in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(record.pid, signal.SIGCONT)
        processes.stop(reversed(list(self._running.values())))
        processes.sweep(self._directory.path)


@contextlib.contextmanager
def fault_plane(flags: tuple[str, ...] = (), etcd_flags: tuple[str, ...] = ()) -> Iterator[FaultPlane]:
    """Start etcd and an API server below a temporary directory; `flags` win over ours."""
    with tempfile.TemporaryDirectory(prefix="faults-") as root:
        plane = FaultPlane(StateDirectory(Path(root), "faults"), flags, etcd_flags)
        try:
            plane.start(ETCD)
            plane.start(API_SERVER)
            yield plane
        finally:
            plane.stop()
