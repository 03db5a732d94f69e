"""One local cluster: starting it, stopping it, and finding it again by name."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from devcluster import processes, state
from devcluster.errors import ClusterStateError
from devcluster.layout import Layout
from devcluster.ports import LOOPBACK
from devcluster.progress import ProgressReporter, SilentReporter
from devcluster.services import monitoring, nodes
from devcluster.spec import ClusterSpec
from devcluster.startup import ensure_binaries, missing_binaries, start_cluster
from devcluster.state import RecordedCluster, StateDirectory


@dataclass(frozen=True)
class ServiceStatus:
    """One recorded process."""

    name: str
    pid: int
    running: bool
    log: Path


@dataclass(frozen=True)
class ClusterStatus:
    """The state of a cluster as recorded, without contacting it."""

    name: str
    kubernetes: str
    """Minor release of the control plane."""
    running: bool
    """Every process of a completely started cluster is alive."""
    api_server: str
    prometheus: str | None
    olm_catalog: str | None
    """Address of the served catalog, where there is OLM."""
    kubeconfig: Path
    state_dir: Path
    services: tuple[ServiceStatus, ...]


class LocalCluster:
    """A cluster by its specification. Nothing happens before `start`; as a context manager it starts and stops."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self._directory = StateDirectory(spec.state_root, spec.name)
        self.layout = Layout(self._directory.path)

    @classmethod
    def attach(cls, name: str, state_root: Path | None = None) -> LocalCluster:
        """Return the running cluster of that name. Raises ClusterStateError when there is none."""
        root = state_root or state.default_root()
        recorded = StateDirectory(root, name).read()
        if recorded is None:
            raise ClusterStateError(
                f"no local cluster {name!r} in {root / 'clusters'}: "
                f"start it with: secondary-scheduler cluster up --name {name}"
            )
        return cls(
            ClusterSpec(
                name=name,
                kubernetes=recorded.kubernetes,
                nodes=recorded.nodes,
                real_nodes=recorded.real_nodes,
                containers=recorded.containers,
                prometheus="prometheus" in recorded.ports,
                pod_loads="metrics-server" in recorded.ports,
                default_scheduler="kube-scheduler" in recorded.ports,
                kwok="kwok" in recorded.ports,
                olm="opm" in recorded.ports,
                state_root=root,
            )
        )

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def name(self) -> str:
        """Its name, unique under one state root."""
        return self.spec.name

    @property
    def state_dir(self) -> Path:
        """Everything that belongs to the cluster is below it."""
        return self.layout.root

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def readonly_kubeconfig(self) -> Path:
        """The kubeconfig of a user who may change nothing."""
        return self.layout.readonly_kubeconfig

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON object per line."""
        return self.layout.audit_log

    @property
    def api_server(self) -> str:
        """`https://127.0.0.1:PORT`. Raises ClusterStateError when the cluster was never started."""
        return f"https://{LOOPBACK}:{self._port('kube-apiserver')}"

    @property
    def prometheus_url(self) -> str:
        """Address of Prometheus behind TLS and the token check. Raises ClusterStateError when it has none."""
        return f"https://{LOOPBACK}:{self._port('prometheus-gateway')}"

    @property
    def prometheus_backend_url(self) -> str:
        """Address of Prometheus itself, in clear text. Raises ClusterStateError when the cluster has none."""
        return f"http://{LOOPBACK}:{self._port('prometheus')}"

    def query_prometheus(self, text: str) -> dict[str, float]:
        """What Prometheus answers to a query now, by the label `instance`; empty if it does not answer."""
        return dict(monitoring.query(self._port("prometheus"), text))

    @property
    def load_generator_url(self) -> str:
        """Address of the load generator's API. Raises ClusterStateError when the cluster has none."""
        return f"http://{LOOPBACK}:{self._port('load-generator')}"

    @property
    def olm_catalog_address(self) -> str:
        """`host:port` of the served catalog, for a CatalogSource. Raises ClusterStateError when there is no OLM."""
        return f"{LOOPBACK}:{self._port('opm')}"

    @property
    def prometheus_token_file(self) -> Path:
        """The bearer token that Prometheus asks for."""
        return self.layout.prometheus_token

    @property
    def prometheus_ca_file(self) -> Path:
        """The authority of Prometheus' certificate."""
        return self.layout.prometheus_ca

    def binary(self, name: str) -> Path:
        """The executable that the cluster uses, by its name in the table of binaries (`etcd`, `kubectl`, …)."""
        return self._state().binaries[name]

    def missing_binaries(self) -> list[str]:
        """Names of the programs that `start` would have to build first. Raises DevClusterError."""
        return missing_binaries(self.spec)

    def build(self, report: ProgressReporter) -> None:
        """Build what is missing, as `start` would. Raises DevClusterError."""
        ensure_binaries(self.spec, report)

    def start(self, report: ProgressReporter | None = None) -> bool:
        """Start the cluster and wait until it is ready; False when it was already running.

        Leftovers of a crash are removed first. When anything fails or the caller is interrupted, everything that was
        started is ended and the state removed before the error goes on. Raises DevClusterError.
        """
        report = report or SilentReporter()
        with self._directory.lock():
            recorded = self._directory.read() if self._directory.path.exists() else None
            if recorded is not None and self._runs(recorded):
                return False
            if self._directory.path.exists():
                with report.step(f"removing leftovers of an earlier cluster {self.name!r}"):
                    self._end(recorded)
            try:
                start_cluster(self.spec, self._directory, report)
            except BaseException:
                with contextlib.suppress(ClusterStateError):
                    recorded = self._directory.read()
                self._end(recorded)
                raise
        return True

    def stop(self, report: ProgressReporter | None = None) -> bool:
        """Stop every process and delete the state; False when there was nothing.

        Raises ClusterStateError while another command is using the cluster.
        """
        report = report or SilentReporter()
        with self._directory.lock():
            if not self._directory.path.exists():
                return False
            recorded = None
            with contextlib.suppress(ClusterStateError):
                recorded = self._directory.read()
            with report.step(f"stopping cluster {self.name!r}"):
                self._end(recorded)
        return True

    def status(self) -> ClusterStatus:
        """What is recorded, and which processes are alive. Raises ClusterStateError when there is no such cluster."""
        recorded = self._state()
        services = tuple(
            ServiceStatus(record.service, record.pid, processes.is_alive(record), record.log)
            for record in recorded.processes
        )
        return ClusterStatus(
            name=self.name,
            kubernetes=recorded.kubernetes,
            running=self._runs(recorded),
            api_server=self.api_server,
            prometheus=self.prometheus_url if "prometheus-gateway" in recorded.ports else None,
            olm_catalog=self.olm_catalog_address if "opm" in recorded.ports else None,
            kubeconfig=self.kubeconfig,
            state_dir=self.state_dir,
            services=services,
        )

    def _state(self) -> RecordedCluster:
        recorded = self._directory.read()
        if recorded is None:
            raise ClusterStateError(
                f"no local cluster {self.name!r}: start it with: secondary-scheduler cluster up --name {self.name}"
            )
        return recorded

    def _port(self, service: str) -> int:
        port = self._state().ports.get(service)
        if port is None:
            raise ClusterStateError(f"cluster {self.name!r} was started without {service}")
        return port

    @staticmethod
    def _runs(recorded: RecordedCluster) -> bool:
        return recorded.complete and all(processes.is_alive(record) for record in recorded.processes)

    def _end(self, recorded: RecordedCluster | None) -> None:
        with _uninterrupted():
            processes.stop(recorded.processes if recorded else ())
            # Before their monitors, which are marked as processes of this cluster.
            nodes.remove_containers(self._directory.path, known=recorded.containers if recorded else None)
            processes.sweep(self._directory.path)
            self._directory.remove()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore further signals (an impatient Ctrl-C) while the block runs; it takes seconds at most."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _pass) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pass(_number: int, _frame: FrameType | None) -> None:
    return
