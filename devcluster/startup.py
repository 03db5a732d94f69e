"""Starting a cluster: the order of the services, and what starts in parallel.

etcd -> kube-apiserver -> kube-controller-manager, kube-scheduler, kwok, OLM, the nodes and their agents; in parallel,
Prometheus with load generator and gateway.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from devcluster import bootstrap, inventory, ports, processes, releases
from devcluster.api import AdminClient
from devcluster.environment import link_tools
from devcluster.errors import DevClusterError, ServiceError
from devcluster.layout import Layout, write_credentials
from devcluster.ports import LOOPBACK
from devcluster.processes import ServiceProcess
from devcluster.progress import ProgressReporter
from devcluster.services import control_plane, monitoring, nodes, olm
from devcluster.spec import ClusterSpec
from devcluster.state import Containers, RecordedCluster, StateDirectory, other_clusters
from devcluster.toolchain import binaries

_READY_SECONDS = 60.0
# The node lifecycle controller lifts the taint of some 30 new nodes per second on two busy processors.
_READY_SECONDS_PER_NODE = 0.15
_POLL_SECONDS = 0.1


def start_cluster(spec: ClusterSpec, directory: StateDirectory, report: ProgressReporter) -> None:
    """Start everything and wait until it is ready. The caller cleans up after an error.

    Raises DevClusterError: BinaryError, PortTakenError, SpecError or ServiceError.
    """
    if spec.olm:
        olm.catalog_directory(spec.olm_catalog)
    if spec.containers == Containers.PODMAN:
        nodes.require_podman()
    release = releases.control_plane_of(spec.kubernetes)
    paths = ensure_binaries(spec, report)
    others = other_clusters(spec.state_root, spec.name)
    state = RecordedCluster(
        name=spec.name,
        kubernetes=release.minor,
        nodes=spec.nodes,
        real_nodes=spec.real_nodes,
        containers=spec.containers,
        ports=ports.allocate(
            _port_names(spec),
            _fixed_ports(spec),
            avoid=[port for other in others for port in other.ports.values()],
        ),
        pod_network=ports.pod_network(other.pod_network for other in others),
        binaries=paths,
    )
    directory.create()
    directory.write(state)
    _Startup(spec, directory, state, report).run()


def ensure_binaries(spec: ClusterSpec, report: ProgressReporter) -> dict[str, Path]:
    """The programs that a cluster runs, by name; what is found nowhere is built.

    Raises BinaryError or SpecError.
    """
    return binaries.ensure(_binary_names(spec), report, releases.control_plane_of(spec.kubernetes).minor)


def missing_binaries(spec: ClusterSpec) -> list[str]:
    """Names of the programs of a cluster that would have to be built. Raises BinaryError or SpecError."""
    return binaries.missing(_binary_names(spec), releases.control_plane_of(spec.kubernetes).minor)


def _binary_names(spec: ClusterSpec) -> list[str]:
    names = ["etcd", "kube-apiserver", "kube-controller-manager"]
    names += ["kube-scheduler"] * spec.default_scheduler
    names += ["kwok"] * spec.kwok
    names += ["prometheus"] * spec.prometheus
    names += ["olm-operator", "catalog-operator", "opm"] * spec.olm
    names += ["kubectl", "pulumi"] * spec.tools
    return names


def _port_names(spec: ClusterSpec) -> list[str]:
    names = ["etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager"]
    names += ["kube-scheduler"] * spec.default_scheduler
    names += ["kwok"] * spec.kwok
    names += ["prometheus", "prometheus-gateway", "load-generator"] * spec.prometheus
    names += ["metrics-server"] * spec.pod_loads
    names += ["opm"] * spec.olm
    return names


def _fixed_ports(spec: ClusterSpec) -> dict[str, int]:
    wanted = {"kube-apiserver": spec.api_server_port, "prometheus-gateway": spec.prometheus_port}
    names = _port_names(spec)
    return {name: port for name, port in wanted.items() if port and name in names}


class _Startup:
    def __init__(
        self, spec: ClusterSpec, directory: StateDirectory, state: RecordedCluster, report: ProgressReporter
    ) -> None:
        self._spec = spec
        self._directory = directory
        self._state = state
        self._report = report
        self._layout = Layout(directory.path)
        self._lock = threading.Lock()
        self._cancelled = False

    def run(self) -> None:
        layout = self._layout
        write_credentials(layout, self._spec.name, self._api_server, inventory.real_node_names(self._spec.real_nodes))
        nodes.write_image_map(layout, self._spec.images)
        link_tools(layout, self._state.binaries)
        with (
            contextlib.closing(AdminClient(layout.kubeconfig)) as self._api,
            ThreadPoolExecutor(max_workers=16, thread_name_prefix="startup") as pool,
        ):
            try:
                self._join([pool.submit(self._control_plane, pool), *self._submit_monitoring(pool)])
            except BaseException:
                # No thread may start another process once the caller begins to end them.
                with self._lock:
                    self._cancelled = True
                processes.stop(self._state.processes)
                raise
        if self._spec.prometheus:
            self._wait("Prometheus has load data for every node", self._loads_missing)
        self._state.complete = True
        self._directory.write(self._state)

    @property
    def _api_server(self) -> str:
        return f"https://{LOOPBACK}:{self._state.ports['kube-apiserver']}"

    @property
    def _expected_nodes(self) -> int:
        return (self._spec.nodes if self._spec.kwok else 0) + self._spec.real_nodes

    def _control_plane(self, pool: ThreadPoolExecutor) -> None:
        spec, state, layout = self._spec, self._state, self._layout
        self._launch(control_plane.etcd(state.binaries["etcd"], layout, state.ports))
        self._launch(
            control_plane.kube_apiserver(state.binaries["kube-apiserver"], layout, state.ports, spec.api_server_flags)
        )
        tasks: list[Future[None]] = [
            self._start(pool, control_plane.kube_controller_manager, "kube-controller-manager"),
            pool.submit(self._objects),
        ]
        if spec.default_scheduler:
            tasks.append(self._start(pool, control_plane.kube_scheduler, "kube-scheduler"))
        if spec.kwok:
            tasks.append(self._start(pool, nodes.kwok, "kwok"))
        if spec.olm:
            tasks.append(pool.submit(self._olm, pool))
        tasks += [
            pool.submit(self._launch, nodes.node_agent(name, index, layout, state.pod_network, spec.containers))
            for index, name in enumerate(inventory.real_node_names(spec.real_nodes))
        ]
        self._join(tasks)
        self._wait("namespaces and ServiceAccounts exist", self._namespaces_missing)
        if spec.pod_loads:
            from devcluster import metrics_server  # with a server's libraries, which import slowly

            metrics_server.register(self._api, state.ports["metrics-server"])
            self._wait("the metrics server is there", lambda: metrics_server.not_served(self._api))
        if self._expected_nodes:
            self._wait(f"{self._expected_nodes} nodes are ready", self._nodes_missing)

    def _start(self, pool: ThreadPoolExecutor, make: Callable[..., ServiceProcess], binary: str) -> Future[None]:
        return pool.submit(self._launch, make(self._state.binaries[binary], self._layout, self._state.ports))

    def _olm(self, pool: ThreadPoolExecutor) -> None:
        layout, state, api = self._layout, self._state, self._api
        catalog = olm.catalog_directory(self._spec.olm_catalog)
        serving = pool.submit(self._launch, olm.opm(state.binaries["opm"], layout, state.ports, catalog))
        with self._report.step("OLM's CRDs and RBAC rules"):
            olm.apply_definitions(api)
        self._wait("OLM's CRDs are served", lambda: olm.kinds_missing(api))
        self._join([serving])
        olm.apply_objects(api, f"{LOOPBACK}:{state.ports['opm']}")
        # Where they could listen there, no pod could on an address of its own. They go on without.
        with ports.hold_port(f"{state.pod_network}.255.254", olm.HEALTH_PORT):
            self._launch(olm.olm_operator(state.binaries["olm-operator"], layout))
            self._launch(olm.catalog_operator(state.binaries["catalog-operator"], layout))
            self._wait("OLM serves the catalog", lambda: olm.not_ready(api))

    def _submit_monitoring(self, pool: ThreadPoolExecutor) -> list[Future[None]]:
        if not self._spec.prometheus:
            return []
        layout, state = self._layout, self._state
        simulated = inventory.simulated_nodes(self._spec.nodes)
        monitoring.write_configuration(layout, state.ports, simulated, self._spec.real_nodes)
        services = [
            monitoring.load_generator(layout, state.ports),
            monitoring.prometheus(state.binaries["prometheus"], layout, state.ports),
            monitoring.gateway(layout, state.ports),
        ]
        return [pool.submit(self._launch, service) for service in services]

    def _launch(self, service: ServiceProcess) -> None:
        with self._report.step(service.name):
            with self._lock:
                if self._cancelled:
                    raise ServiceError(f"{service.name} was not started because startup was cancelled")
                record = processes.start(service, self._directory.path)
                self._state.processes.append(record)
                self._directory.write(self._state)
            processes.wait_ready(service, record)

    def _join(self, tasks: list[Future[None]]) -> None:
        done, _ = wait(tasks, return_when=FIRST_EXCEPTION)
        for task in done:
            task.result()

    def _objects(self) -> None:
        api = self._api
        with self._report.step(f"RBAC rules and {self._spec.nodes} simulated nodes"):
            bootstrap.apply_access(api)
            if self._spec.nodes:
                with ThreadPoolExecutor(max_workers=8) as pool:
                    for _ in pool.map(
                        lambda node: api.create("/api/v1/nodes", inventory.manifest(node)),
                        inventory.simulated_nodes(self._spec.nodes),
                    ):
                        pass

    def _namespaces_missing(self) -> str:
        path = "/api/v1/namespaces/default"
        api = self._api
        accounts = api.get(f"{path}/serviceaccounts")["items"]
        maps = api.get(f"{path}/configmaps")["items"]
        missing = {"default", "kube-root-ca.crt"} - {item["metadata"]["name"] for item in (*accounts, *maps)}
        return f"{', '.join(sorted(missing))} of namespace default" if missing else ""

    def _nodes_missing(self) -> str:
        items = self._api.get("/api/v1/nodes")["items"]
        ready = sum(
            any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
            and not any(t["key"].startswith("node.kubernetes.io/") for t in node["spec"].get("taints", []))
            for node in items
        )
        missing = self._expected_nodes - ready
        return f"{missing} of {self._expected_nodes} nodes" if missing > 0 else ""

    def _loads_missing(self) -> str:
        expected = self._spec.nodes + self._spec.real_nodes
        missing = expected - monitoring.nodes_with_load(self._state.ports)
        return f"the load of {missing} of {expected} nodes" if missing > 0 else ""

    def _wait(self, condition: str, missing: Callable[[], str]) -> None:
        """Wait until `missing` returns an empty text; it names what is still missing.

        Raises DevClusterError when a process exits or the time is up.
        """
        seconds = _READY_SECONDS + _READY_SECONDS_PER_NODE * self._spec.nodes
        deadline = time.monotonic() + seconds
        with self._report.step(condition):
            while still := missing():
                self._check_alive()
                if self._cancelled:
                    raise ServiceError(f"gave up waiting until {condition}")
                if time.monotonic() > deadline:
                    raise ServiceError(
                        f"the cluster is not ready after {seconds:.0f} s: still missing {still}; "
                        f"if the machine is busy, try again or use fewer nodes"
                    )
                # Listing many nodes is work for the API server, which is then slower to make them ready.
                time.sleep(max(_POLL_SECONDS, self._spec.nodes / 1000))

    def _check_alive(self) -> None:
        with self._lock:
            records = list(self._state.processes)
        for record in records:
            if not processes.is_alive(record):
                raise DevClusterError(
                    f"{record.service} exited while the cluster was starting: {processes.last_lines(record.log)}"
                )
