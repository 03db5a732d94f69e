"""Where our load-aware plugins differ from upstream without a switch: the real scheduler-plugins 0.34.7 and ours, side
by side.

The differences that `compatibility: upstream` switches off are shown in tests/unit/scheduler/plugins.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import ports
from devcluster.cluster import LocalCluster
from devcluster.pki import CertificateAuthority
from scheduler.config import ConfigurationError, load_configuration
from scheduler.core import explain
from scheduler.framework import LoadReading, NodeLoad
from scheduler.kube.client import ClientConfig
from scheduler.load import LoadError, configured_sources, load_source, parse_watcher
from scheduler.plugins import build_profile
from tests.conformance.schedulerplugins import binary_of_peer
from tests.faults.server import BreakablePrometheus
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod
from tests.unit.scheduler.load.fakes import FakeService, service

pytestmark = [pytest.mark.integration]
Json = dict[str, Any]
PACKING = "TargetLoadPacking"
NAMESPACE = "differences"
NODES = {"difference-a": 20.0, "difference-b": 60.0}


def profile(name: str, plugin: str, args: Json) -> Json:
    return {
        "schedulerName": name,
        "plugins": {"score": {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}},
        "pluginConfig": [{"name": plugin, "args": args}],
    }


def configuration(*profiles: Json, **more: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles),
            **more,
        }
    )


def ours(text: str) -> Any:
    return load_configuration(text, source="ours.yaml", allow_token_in_config_map=True)


@dataclass
class Real:
    """A running scheduler-plugins."""

    process: subprocess.Popen[bytes]
    file: Path

    @property
    def log(self) -> str:
        return self.file.read_text(errors="replace")

    def until(self, check: Callable[[], Any], awaited: str, seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not check():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {awaited}\n{self.log[-2000:]}"
            time.sleep(0.1)

    def ended(self) -> bool:
        return self.process.poll() is not None


@contextmanager
def real(control_plane: LocalCluster, directory: Path, *profiles: Json) -> Iterator[Real]:
    """Run scheduler-plugins with these profiles."""
    binary = binary_of_peer()
    connection = {"kubeconfig": str(control_plane.kubeconfig)}
    config, log = directory / "real.json", directory / "real.log"
    config.write_text(configuration(*profiles, clientConnection=connection, leaderElection={"leaderElect": False}))
    port = ports.allocate(["real"], {})["real"]
    command = [str(binary), f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={port}", "-v=2"]
    command += [f"--{kind}-kubeconfig={control_plane.kubeconfig}" for kind in ("authentication", "authorization")]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, cwd=directory) as process:
        try:
            yield Real(process, log)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def core(control_plane: LocalCluster) -> Iterator[Any]:
    api = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(control_plane.kubeconfig)))
    api.create_namespace({"metadata": {"name": NAMESPACE}})
    resources = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    for name in NODES:
        api.create_node({"metadata": {"name": name}, "status": {"allocatable": resources, "capacity": resources}})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not api.list_namespaced_service_account(NAMESPACE).items:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    yield api
    for name in NODES:
        api.delete_node(name)


@pytest.fixture
def watcher() -> Iterator[FakeService]:
    with service() as fake:
        fake.json(document(NODES))
        yield fake


def document(loads: dict[str, float]) -> Json:
    now = int(time.time())
    nodes = {
        name: {"metrics": [{"name": "cpu", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": value}]}
        for name, value in loads.items()
    }
    window = {"duration": "15m", "start": now - 900, "end": now}
    return {"timestamp": now, "window": window, "source": "test", "data": {"NodeMetricsMap": nodes}}


def place(core: Any, name: str, scheduler: str) -> Any:
    """Create a pod; returns a function that reads it."""
    spec = {
        "schedulerName": scheduler,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1m"}}}],
    }
    core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": name}, "spec": spec})
    return lambda: core.read_namespaced_pod(name, NAMESPACE)


def test_two_profiles_with_different_targets(
    control_plane: LocalCluster, core: Any, watcher: FakeService, tmp_path: Path
) -> None:
    profiles = [
        profile(f"target-{target}", PACKING, {"watcherAddress": watcher.url, "targetUtilization": target})
        for target in (20, 80)
    ]
    with real(control_plane, tmp_path, *profiles) as running:
        read = {target: place(core, f"target-{target}", f"target-{target}") for target in (20, 80)}
        running.until(lambda: all(read_pod().spec.node_name for read_pod in read.values()), "both are placed")
        placed = {target: read_pod().spec.node_name for target, read_pod in read.items()}
    assert placed == {20: "difference-b", 80: "difference-b"}, "the last profile's target counts for both"

    state = cluster(*(node(name) for name in NODES))
    loads = {name: NodeLoad(cpu_average=load, measured_at=NOW) for name, load in NODES.items()}
    state.set_load(LoadReading(loads, NOW, source=f"watcher:{watcher.url}"))
    best = [
        explain(state.snapshot(NOW), pod("p", container("1m")), build_profile(wanted)).best
        for wanted in ours(configuration(*profiles)).profiles
    ]
    assert [list(names) for names in best] == [["difference-a"], ["difference-b"]]


def test_a_target_beyond_100(control_plane: LocalCluster, core: Any, watcher: FakeService, tmp_path: Path) -> None:
    wild = profile("wild", PACKING, {"watcherAddress": watcher.url, "targetUtilization": 150})
    with real(control_plane, tmp_path, wild) as running:
        read = place(core, "wild", "wild")
        running.until(lambda: "invalid score" in running.log, "the attempt fails")
        assert read().spec.node_name is None
    with pytest.raises(ConfigurationError, match="targetUtilization: 150 is not in the range 1 to 100"):
        ours(configuration(wild))


def test_two_plugins_that_fetch_for_themselves(control_plane: LocalCluster, tmp_path: Path) -> None:
    with service() as prometheus:
        prometheus.json({"status": "success", "data": {"resultType": "vector", "result": []}})
        args = {"metricProvider": {"type": "Prometheus", "address": prometheus.url}}
        profiles = profile("one", PACKING, args), profile("two", PACKING, args)
        with real(control_plane, tmp_path, *profiles) as running:
            running.until(running.ended, "it panics")
            assert 'conflicts with pattern "/watcher"' in running.log
        wanted, _ = configured_sources(ours(configuration(*profiles)).profiles)
        assert list(wanted) == [f"Prometheus:{prometheus.url}"]


def test_the_number_of_queries(control_plane: LocalCluster, tmp_path: Path) -> None:
    with service() as prometheus:
        prometheus.json({"status": "success", "data": {"resultType": "vector", "result": []}})
        packing = profile("one", PACKING, {"metricProvider": {"type": "Prometheus", "address": prometheus.url}})
        with real(control_plane, tmp_path, packing) as running:
            # Its POSTs are answered with 501, upon which it asks by GET.
            running.until(lambda: len(prometheus.paths) >= 102, "three windows of 34 queries")
        count = -1
        while count != len(prometheus.paths):
            # What it sent before it ended may still be on its way.
            count = len(prometheus.paths)
            time.sleep(0.5)
        prometheus.paths.clear()
        ((key, settings),) = configured_sources(ours(configuration(packing)).profiles)[0].items()
        source = load_source(key, settings, ClientConfig(server="https://unused.invalid"))
        source.read()
        source.close()
        assert len(prometheus.paths) == 4


def test_a_prometheus_whose_certificate_nobody_vouches_for(control_plane: LocalCluster, tmp_path: Path) -> None:
    pair = CertificateAuthority("unknown").server("prometheus", [], ["127.0.0.1"])
    prometheus = BreakablePrometheus(pair, tmp_path, "canary-token")
    try:
        provider = {"type": "Prometheus", "address": prometheus.url, "token": "canary-token"}
        trusting = profile("one", PACKING, {"metricProvider": provider})
        with real(control_plane, tmp_path, trusting) as running:
            running.until(lambda: "Bearer canary-token" in prometheus.authorizations, "it shows its token")
        prometheus.authorizations.clear()
        ((key, settings),) = configured_sources(ours(configuration(trusting)).profiles)[0].items()
        source = load_source(key, settings, ClientConfig(server="https://unused.invalid"))
        with pytest.raises(LoadError, match="TLS verification failed"):
            source.read()
        source.close()
        assert prometheus.authorizations == set()
    finally:
        prometheus.stop()


def test_a_nan_in_the_answer_of_a_load_watcher(
    control_plane: LocalCluster, core: Any, watcher: FakeService, tmp_path: Path
) -> None:
    watcher.json(document({**NODES, "broken": float("nan")}))
    with real(control_plane, tmp_path, profile("one", PACKING, {"watcherAddress": watcher.url})) as running:
        running.until(lambda: "unable to decode watcher metrics" in running.log, "the whole answer is refused")
    body = json.dumps(document({**NODES, "broken": float("nan")})).encode()
    reading = parse_watcher(body, "watcher")
    assert set(reading.loads) == set(NODES)
    assert reading.rejected == {"watcher": 1}


def test_peaks_without_an_address(control_plane: LocalCluster, tmp_path: Path) -> None:
    models = {"NodePowerModel": {"n": {"k0": 1.0, "k1": 1.0, "k2": 1.0}}}
    nowhere = profile("one", "Peaks", models)
    with real(control_plane, tmp_path, nowhere) as running:
        running.until(running.ended, "it does not start")
        assert "invalid MetricProvider.Type, got" in running.log
    with pytest.raises(ConfigurationError, match=r"pluginConfig\[0\]\.args\.WatcherAddress"):
        ours(configuration(nowhere))


def test_signalfx_without_a_token(control_plane: LocalCluster, tmp_path: Path) -> None:
    args = {"metricProvider": {"type": "SignalFx", "address": "http://127.0.0.1:9"}}
    silent = profile("one", PACKING, args)
    with real(control_plane, tmp_path, silent) as running:
        running.until(running.ended, "the process ends")
    ((key, settings),) = configured_sources(ours(configuration(silent)).profiles)[0].items()
    source = load_source(key, settings, ClientConfig(server="https://unused.invalid"))
    with pytest.raises(LoadError, match="it needs a token"):
        source.read()
    source.close()
