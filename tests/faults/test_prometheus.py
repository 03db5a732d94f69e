"""A broken Prometheus, in every way it can be broken, under a running daemon on a real API server.

One daemon lives through all of them. In each: pods are placed, `/metrics` and one line of the log say what is wrong,
nothing shows the token, and the daemon neither grows nor fails to notice when all is well again.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import pki, ports
from devcluster.cluster import LocalCluster
from tests.faults import server
from tests.faults.server import MEGABYTE, BreakablePrometheus
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.integration]

NAMESPACE = "faults"
NODES = ("node-a", "node-b", "node-c", "node-d")
PLUGINS = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment")
TOKEN = "canary-token-1"


class Running:
    """The daemon, its Prometheus, and what can be seen of both."""

    def __init__(self, daemon: Any, prometheus: BreakablePrometheus, log: Path, token: Path, port: int) -> None:
        self.daemon, self.prometheus, self.log, self.token, self.port = daemon, prometheus, log, token, port
        self.core: Any = None
        self._read = 0
        self._pods = 0

    def unread(self) -> str:
        """The log since the last call of `new_lines`."""
        return self.log.read_text()[self._read :]

    def new_lines(self) -> list[dict[str, Any]]:
        """Warnings and errors about the load since the last call."""
        text = self.log.read_text()
        lines = text[self._read :].splitlines()
        self._read = len(text)
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if record.get("level") in ("warning", "error")]

    def metric(self, name: str, **labels: str) -> float:
        """A value of `/metrics`, of the one source there is."""
        body = requests.get(f"https://127.0.0.1:{self.port}/metrics", verify=False, timeout=5).text
        for line in body.splitlines():
            if line.startswith(f"secondary_scheduler_{name}{{") and all(
                f'{key}="{value}"' in line for key, value in labels.items()
            ):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def place(self) -> float:
        """Create a pod; returns the seconds until it has a node."""
        self._pods += 1
        name = f"pod-{self._pods}"
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
        spec = {"schedulerName": "faults", "containers": [container], "tolerations": [{"operator": "Exists"}]}
        started = time.monotonic()
        self.core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": name}, "spec": spec})
        eventually(lambda: self.core.read_namespaced_pod(name, NAMESPACE).spec.node_name, f"{name} has a node")
        return time.monotonic() - started

    def healthy(self) -> bool:
        """Whether all nodes have fresh load."""
        return self.metric("load_data_fresh") == 1 and self.metric("load_node_states", state="fresh") == len(NODES)


def configuration(kubeconfig: Path, prometheus: str, token: Path, ca: Path) -> dict[str, Any]:
    load = {"tokenFile": str(token), "caFile": str(ca), "refreshSeconds": 1, "timeoutSeconds": 1, "maxAgeSeconds": 2}
    provider = {"type": "Prometheus", "address": prometheus}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [
            {
                "schedulerName": "faults",
                "plugins": {
                    "score": {"enabled": [{"name": plugin} for plugin in PLUGINS]},
                    "preScore": {"enabled": [{"name": "LowRiskOverCommitment"}]},
                },
                "pluginConfig": [
                    *({"name": plugin, "args": {"metricProvider": provider}} for plugin in PLUGINS),
                    {"name": "SecondarySchedulerOptions", "args": {"load": load}},
                ],
            }
        ],
    }


@pytest.fixture(scope="module")
def authority() -> pki.CertificateAuthority:
    return pki.CertificateAuthority("right")


@pytest.fixture(scope="module")
def running(
    control_plane: LocalCluster, tmp_path_factory: pytest.TempPathFactory, authority: pki.CertificateAuthority
) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("faults")
    core = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(control_plane.kubeconfig)))
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    resources = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    for name in NODES:
        core.create_node({"metadata": {"name": name}, "status": {"allocatable": resources, "capacity": resources}})
    eventually(lambda: core.list_namespaced_service_account(NAMESPACE).items, "a ServiceAccount for pods")
    token, ca, config, log = (directory / name for name in ("token", "ca.crt", "config.yaml", "log"))
    token.write_text(TOKEN)
    ca.write_bytes(authority.pair.certificate)
    server.packed_bomb()  # now: packing takes a second, and delays whatever else this process serves
    prometheus = BreakablePrometheus(certificate(authority), directory, TOKEN)
    prometheus.loads = {"node-a": 0.7, "node-b": 0.2, "node-c": 0.2, "node-d": 0.2}
    config.write_text(json.dumps(configuration(control_plane.kubeconfig, prometheus.url, token, ca)))
    port = ports.allocate(["daemon"], {})["daemon"]
    command = [sys.executable, "-m", "scheduler", f"--config={config}", "--bind-address=127.0.0.1"]
    command += [
        f"--metric-credentials-directory={directory}",
        f"--secure-port={port}",
        "--logging-format=json",
        "--authorization-always-allow-paths=/metrics,/readyz",
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as daemon:
        running = Running(daemon, prometheus, log, token, port)
        running.core = core
        try:
            # It answers a little after it begins to place pods.
            eventually(lambda: '"event": "serving"' in log.read_text() or daemon.poll() is not None, "it serves")
            assert daemon.poll() is None, log.read_text()[-2000:]
            with pytest.warns(match="Unverified HTTPS request"):
                eventually(running.healthy, "all nodes have a load")
            # Said once, some seconds after the start, as no control plane of these tests has Leases. Each test allows
            # only lines of its own.
            eventually(lambda: "no Lease can be read" in log.read_text(), "it looked for a Lease to follow")
            yield running
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE_SECONDS)
            prometheus.stop()
            for name in NODES:
                core.delete_node(name)
    assert TOKEN not in log.read_text()


def certificate(authority: pki.CertificateAuthority) -> pki.KeyPair:
    return authority.server("prometheus", [], ["127.0.0.1", "127.0.0.2"])


def broken(running: Running, reason: str, during: Callable[[], None] = lambda: None) -> None:
    """Under a fault that has begun: pods are placed, the metric and one line say it. Then repair."""
    prometheus = running.prometheus
    failures = running.metric("load_refresh_failures_total")
    eventually(lambda: running.metric("load_data_fresh") == 0, f"load is not fresh: {reason}")
    # The gauge ages between reads, the line comes with the next read: a repair in between would leave nothing to say.
    eventually(lambda: reason in running.unread(), f"the log says why: {reason}")
    assert running.place() < 3
    during()
    if "older" not in reason and "ahead" not in reason:
        assert running.metric("load_refresh_failures_total") > failures
    assert requests.get(f"https://127.0.0.1:{running.port}/readyz", verify=False, timeout=5).text == "ok"
    time.sleep(1.2)
    lines = running.new_lines()
    assert [line for line in lines if reason in str(line.get("reason"))] == lines, lines
    assert len(lines) == 1, "said once"
    assert prometheus.url in lines[0]["reason"] or "token file" in lines[0]["reason"]
    prometheus.repair()
    eventually(running.healthy, "all is well again")
    running.new_lines()


FAULTS = {
    "slow drip": (server.drip, "within 1 s"),
    "200 MB": (server.huge, "larger than 270336 bytes, which is the most for 4 nodes"),
    "gzip bomb": (server.bomb, "larger than 270336 bytes, which is the most for 4 nodes"),
    "login page": (server.login_page, "is this a login page?"),
    "nothing but lists": (server.lists, "holds more than 6208 values"),
    "nothing but brackets": (server.brackets, "not JSON"),
}


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
class TestPrometheus:
    def test_without_faults_the_hot_node_is_avoided_and_nothing_is_logged(self, running: Running) -> None:
        running.new_lines()
        for _ in range(3):
            assert running.place() < 3
        pods = running.core.list_namespaced_pod(NAMESPACE).items
        assert "node-a" not in {pod.spec.node_name for pod in pods}
        assert running.new_lines() == []

    def test_three_plugins_cost_four_queries_a_refresh(self, running: Running) -> None:
        before, began = running.prometheus.seen, time.monotonic()
        time.sleep(4)
        rounds = (running.prometheus.seen - before) / 4
        assert 1 <= rounds <= time.monotonic() - began + 1

    def test_it_is_down(self, running: Running) -> None:
        running.prometheus.stop()
        broken(running, "not reachable")

    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_harmful_answer(self, running: Running, fault: str) -> None:
        process = psutil.Process(running.daemon.pid)
        before = process.memory_info().rss
        running.prometheus.answer, reason = FAULTS[fault]
        broken(running, reason)
        assert process.memory_info().rss - before < 100 * MEGABYTE
        if fault == "200 MB":
            assert running.prometheus.sent < 40 * MEGABYTE, "cut off, not read to the end"

    def test_a_redirect_is_not_followed_and_the_token_goes_nowhere(
        self, running: Running, tmp_path: Path, authority: pki.CertificateAuthority
    ) -> None:
        other = BreakablePrometheus(certificate(authority), tmp_path, TOKEN, host="127.0.0.2")
        try:
            running.prometheus.location = f"{other.url}/api/v1/query?query=up"
            running.prometheus.answer = server.elsewhere
            broken(running, "redirected (HTTP 302)")
            assert (other.seen, other.authorizations) == (0, set())
        finally:
            other.stop()

    def test_a_redirect_to_a_file_is_not_followed(self, running: Running) -> None:
        running.prometheus.location = f"file://{running.token}"
        running.prometheus.answer = server.elsewhere
        broken(running, "redirected (HTTP 302)")

    def test_malformed_samples_cost_themselves_and_are_said_once(self, running: Running) -> None:
        before = running.metric("load_rejected_values_total", query="cpu_average")
        running.prometheus.answer = server.beside_malformed_ones
        eventually(
            lambda: running.metric("load_rejected_values_total", query="cpu_average") >= before + 3 * server.MALFORMED,
            "three refreshes with malformed samples",
        )
        assert running.healthy()
        lines = running.new_lines()
        assert [line["event"] for line in lines] == ["values that cannot be a load"]
        assert "Expected `object`, got `int`" in lines[0]["reason"]
        running.prometheus.repair()
        eventually(lambda: running.prometheus.seen and running.healthy(), "all is well again")
        running.new_lines()

    def test_a_token_that_is_refused_and_then_rotated(self, running: Running) -> None:
        running.prometheus.token = "canary-token-2"

        def rotate() -> None:
            running.token.write_text("canary-token-2")

        try:
            broken(running, "HTTP 401, the token file", during=rotate)
        finally:
            running.prometheus.token = TOKEN
            running.token.write_text(TOKEN)
        eventually(running.healthy, "the first token again")
        running.new_lines()

    def test_a_certificate_of_another_authority(self, running: Running, authority: pki.CertificateAuthority) -> None:
        running.prometheus.present(certificate(pki.CertificateAuthority("wrong")))
        broken(running, "give caFile the CA", during=lambda: running.prometheus.present(certificate(authority)))

    def test_a_certificate_that_has_expired(
        self, running: Running, authority: pki.CertificateAuthority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=366)
        with monkeypatch.context() as patch:
            patch.setattr(pki, "_now", lambda: past)
            expired = certificate(authority)
        running.prometheus.present(expired)
        broken(running, "renew the certificate", during=lambda: running.prometheus.present(certificate(authority)))

    def test_samples_an_hour_old(self, running: Running) -> None:
        running.prometheus.sample_age = 3600
        broken(running, "newest sample is older than 2 s")
        running.prometheus.sample_age = 0

    def test_samples_of_the_year_2058(self, running: Running) -> None:
        running.prometheus.sample_age = -1e9
        broken(running, "1000000000 s ahead of this machine's clock")

    def test_half_of_the_nodes_missing(self, running: Running) -> None:
        loads = running.prometheus.loads
        running.prometheus.loads = {name: loads[name] for name in ("node-a", "node-b")}
        eventually(lambda: running.metric("load_node_states", state="absent") == 2, "two nodes are absent")
        assert running.metric("load_data_fresh") == 1, "what there is, is fresh"
        assert running.place() < 3
        time.sleep(1.2)
        (line,) = running.new_lines()
        assert line["event"] == "nodes without load in the source's answer"
        assert (line["count"], line["examples"]) == (2, ["node-c", "node-d"])
        running.prometheus.loads = loads
        eventually(running.healthy, "all is well again")
        assert running.new_lines() == []

    def test_series_by_address_and_two_for_one_node(self, running: Running) -> None:
        loads, core = running.prometheus.loads, running.core
        addresses = {
            "node-a": [("InternalIP", "192.0.2.1")],
            "node-b": [("Hostname", "node-b.example.com")],
            "node-c": [("InternalIP", "192.0.2.3")],
        }
        for name, pairs in addresses.items():
            listed = [{"type": kind, "address": address} for kind, address in pairs]
            core.patch_node_status(name, {"status": {"addresses": listed}})
        # node-c has two series: the one under its name counts. One is of a pod's address, which is no node's.
        by_address = {"192.0.2.1:9100": 0.7, "node-b.example.com:9100": 0.2, "192.0.2.3:9100": 0.9}
        running.prometheus.loads = {**by_address, "node-c": 0.2, "node-d": 0.2, "10.244.0.9:9100": 0.1}
        eventually(lambda: running.metric("load_unmatched_instances") == 1, "the pod's series matches no node")
        assert running.healthy(), "every node has a load"
        for _ in range(3):
            assert running.place() < 3
        latest = [f"pod-{running._pods - number}" for number in range(3)]
        nodes = {core.read_namespaced_pod(name, NAMESPACE).spec.node_name for name in latest}
        assert "node-a" not in nodes, "the hot node, known by its address"
        time.sleep(1.2)
        (line,) = running.new_lines()
        assert line["event"] == "load series whose instance is no node of the cluster"
        assert line["examples"] == ["10.244.0.9:9100"]
        running.prometheus.loads = loads
        eventually(lambda: running.healthy() and not running.metric("load_unmatched_instances"), "all is well again")
        assert running.new_lines() == []
