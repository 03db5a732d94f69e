"""What the running daemon says when something is wrong, and what it never says: on a real API server."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import pki
from devcluster.cluster import LocalCluster
from tests.support.daemon import Cluster, configuration, daemon
from tests.support.queries import QUERIES, labels_of, mistakes_about, scraped, selected
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration]

NAME = "serving"
CANARY = "canary-0a1b2c3d"


@pytest.fixture(scope="module")
def cluster(control_plane: LocalCluster) -> Iterator[Cluster]:
    cluster = Cluster(control_plane.kubeconfig, NAME)
    yield cluster
    cluster.remove()


def source(address: str, **provider: Any) -> dict[str, Any]:
    return {
        "name": "TargetLoadPacking",
        "args": {"metricProvider": {"type": "Prometheus", "address": address, **provider}},
    }


@pytest.mark.parametrize("address", ["http://[bad", f"https://user:{CANARY}@prometheus:9090"])
def test_an_address_that_cannot_be_used_ends_the_process_with_one_line(
    control_plane: LocalCluster, tmp_path: Path, address: str
) -> None:
    with daemon(tmp_path, configuration(control_plane.kubeconfig, NAME, source(address)), serving=False) as running:
        eventually(lambda: running.process.poll() is not None, "it ends")
        assert running.process.returncode == 4
        (line,) = running.log.splitlines()
        assert "metricProvider.address" in line
        assert CANARY not in line


def test_a_start_that_fails_ends_the_process_with_a_reason(control_plane: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(
        "import sys\nimport scheduler.engine.loadfeeds as feeds\n"
        "def fail(*_):\n    raise ValueError('the source of the load cannot be used')\n"
        "feeds.load_source = fail\nfrom scheduler.app import run\nsys.exit(run(sys.argv[1:]))\n"
    )
    content = configuration(control_plane.kubeconfig, NAME, source("https://127.0.0.1:9"))
    program = (str(tmp_path / "failing.py"),)
    with daemon(tmp_path, content, program=program, serving=False) as running:
        eventually(lambda: running.process.poll() is not None, "it ends")
        assert running.process.returncode == 1
        last = json.loads(running.log.splitlines()[-1])
        assert last["err"] == "kube-scheduler: sync: ValueError: the source of the load cannot be used"


def test_a_token_of_the_configuration_is_shown_nowhere(
    control_plane: LocalCluster, cluster: Cluster, tmp_path: Path
) -> None:
    election = {"leaderElect": True, "resourceName": NAME, "resourceNamespace": NAME}
    durations = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "1s"}
    content = configuration(
        control_plane.kubeconfig,
        NAME,
        source("http://127.0.0.1:9", token=CANARY),
        leaderElection={**election, **durations},
    )
    with daemon(tmp_path, content, "-v=10") as running:
        cluster.place(NAME)
        eventually(lambda: running.records("load data are not fresh; pods are placed without them"), "it says why")
        for path in ("/metrics", "/configz", "/readyz?verbose", "/livez?verbose"):
            assert CANARY not in running.get(path).text, path
        shown = running.get("/configz").json()["componentconfig"]["profiles"][0]["pluginConfig"]
        assert shown[0]["args"]["metricProvider"]["token"] == "[secret]"
        api = cluster.core.api_client
        leases = kubernetes.CoordinationV1Api(api).list_namespaced_lease(NAME, _preload_content=False).data.decode()
        assert "configuration-hash" in leases
        assert CANARY not in leases
    for records in (cluster.core.list_namespaced_event, cluster.core.list_namespaced_pod):
        assert CANARY not in records(NAME, _preload_content=False).data.decode()
    assert CANARY not in running.log


def test_it_serves_on_ipv6_and_ipv4_by_default(control_plane: LocalCluster, tmp_path: Path) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with daemon(tmp_path, configuration(control_plane.kubeconfig, NAME), bind=None) as running:
        assert running.get("/livez").text == "ok"
        running.host = "[::1]"
        assert running.get("/livez").text == "ok"


def serving_certificate(port: int) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=5) as raw, context.wrap_socket(raw) as secure:
        return secure.getpeercert(binary_form=True) or b""


def test_a_renewed_serving_certificate_is_served_without_a_restart(control_plane: LocalCluster, tmp_path: Path) -> None:
    authority = pki.CertificateAuthority("serving")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def present() -> None:
        pair = authority.server("scheduler", [], ["127.0.0.1"])
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)

    present()
    flags = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    with daemon(tmp_path, configuration(control_plane.kubeconfig, NAME), *flags) as running:
        before = serving_certificate(running.port)
        key.write_text("half a rotation")
        refused = "the renewed serving certificate cannot be used; the former one stays"
        eventually(lambda: serving_certificate(running.port) and running.records(refused), "it says so")
        assert serving_certificate(running.port) == before
        present()
        eventually(lambda: serving_certificate(running.port) != before, "the renewed one is served")
        assert running.records("serving certificate renewed")
        shown = x509.load_der_x509_certificate(serving_certificate(running.port)).not_valid_after_utc.timestamp()
        name = 'secondary_scheduler_serving_certificate_timestamp_seconds{bound="not_after"}'
        assert float(running.get("/metrics").text.partition(f"{name} ")[2].split()[0]) == shown


class Wire:
    """Passes connections on to the API server, and cuts them."""

    def __init__(self, server: str) -> None:
        parts = urlsplit(server)
        self._target = (str(parts.hostname), int(parts.port or 443))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break off every connection."""
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._open.clear()

    def close(self) -> None:
        """Cut, and accept no more."""
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            behind = socket.create_connection(self._target)
            self._open += [connection, behind]
            for ends in ((connection, behind), (behind, connection)):
                threading.Thread(target=self._pass, args=ends, daemon=True).start()

    @staticmethod
    def _pass(receiver: socket.socket, sender: socket.socket) -> None:
        with receiver, sender:
            try:
                while data := receiver.recv(1 << 16):
                    sender.sendall(data)
            except OSError:
                return


@pytest.fixture
def wire(control_plane: LocalCluster) -> Iterator[Wire]:
    wire = Wire(yaml.safe_load(control_plane.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    yield wire
    wire.close()


def limited_kubeconfig(
    control_plane: LocalCluster, wire: Wire, cluster: Cluster, directory: Path, account: str = "limited"
) -> Path:
    """A kubeconfig of a ServiceAccount, over the wire."""
    cluster.core.create_namespaced_service_account(NAME, {"metadata": {"name": account}})
    token = cluster.core.create_namespaced_service_account_token(
        account, NAME, {"spec": {"expirationSeconds": 3600}}
    ).status.token
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = wire.url
    document["users"][0]["user"] = {"token": token}
    file = directory / "limited.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_a_right_that_is_withdrawn_after_the_start_is_named_until_it_is_back(
    control_plane: LocalCluster, cluster: Cluster, wire: Wire, tmp_path: Path
) -> None:
    kubeconfig = limited_kubeconfig(control_plane, wire, cluster, tmp_path)
    rest = {"metadata": {"name": "serving-rest"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    account = {"kind": "ServiceAccount", "name": "limited", "namespace": NAME}
    binding = {
        "metadata": {"name": "serving-rest"},
        "subjects": [account],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "serving-rest"},
    }
    cluster.rbac.create_cluster_role(rest)
    cluster.rbac.create_cluster_role_binding(binding)
    try:
        with daemon(tmp_path, configuration(kubeconfig, NAME)) as running:
            eventually(lambda: running.get("/readyz").text == "ok", "it is ready")
            cluster.rbac.patch_cluster_role(
                "serving-rest", {"rules": [{"apiGroups": ["*"], "resources": ["pods", "nodes"], "verbs": ["*"]}]}
            )
            wire.cut()
            event = "a watch is refused: its copy grows old"
            eventually(lambda: running.records(event), "it says so")
            record = running.records(event)[0]
            assert f'cannot watch resource "{record["resource"]}"' in record["reason"]
            eventually(lambda: "[-]watches failed" in running.get("/readyz").text, "it is not ready")
            assert 'secondary_scheduler_watch_refused{resource="' in running.get("/metrics").text
            cluster.rbac.patch_cluster_role("serving-rest", {"rules": rest["rules"]})
            eventually(lambda: running.get("/readyz").text == "ok", "it recovers")
            assert running.records("a watch is allowed again")
    finally:
        cluster.rbac.delete_cluster_role_binding("serving-rest")
        cluster.rbac.delete_cluster_role("serving-rest")


def unread(control_plane: LocalCluster) -> str | None:
    """What the scheduler says on its Lease that it goes without."""
    api = kubernetes_config.new_client_from_config(str(control_plane.kubeconfig))
    lease = kubernetes.CoordinationV1Api(api).read_namespaced_lease("unread", NAME)
    return (lease.metadata.annotations or {}).get("secondary-scheduler.io/unread-resources")


@pytest.mark.slow
def test_a_right_that_was_never_given_delays_the_start_and_does_not_prevent_it(
    control_plane: LocalCluster, cluster: Cluster, wire: Wire, tmp_path: Path
) -> None:
    """With system:kube-scheduler of 1.31 and older, which has no rule for volumeattachments."""
    kubeconfig = limited_kubeconfig(control_plane, wire, cluster, tmp_path, "unread")
    groups = ["apps", "policy", "events.k8s.io", "coordination.k8s.io", "resource.k8s.io", "storage.k8s.io"]
    kinds = ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities"]
    rules = [
        {"apiGroups": ["", *groups[:-1]], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": groups[-1:], "resources": kinds, "verbs": ["*"]},
    ]
    missing = {"apiGroups": groups[-1:], "resources": ["volumeattachments"], "verbs": ["list", "watch"]}
    account = {"kind": "ServiceAccount", "name": "unread", "namespace": NAME}
    role_name = "serving-without-attachments"
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role_name}
    cluster.rbac.create_cluster_role({"metadata": {"name": role_name}, "rules": rules})
    cluster.rbac.create_cluster_role_binding(
        {"metadata": {"name": role_name}, "subjects": [account], "roleRef": role_ref}
    )
    try:
        election = {"leaderElect": True, "resourceNamespace": NAME, "resourceName": "unread"}
        with daemon(tmp_path, configuration(kubeconfig, NAME, leaderElection=election)) as running:
            eventually(lambda: running.get("/readyz").text == "ok", "it is ready without them")
            (record,) = [line for line in running.records() if "may not be read" in line["event"]]
            assert record["resource"] == "volumeattachments"
            assert 'cannot list resource "volumeattachments"' in record["reason"]
            refused = 'secondary_scheduler_watch_refused{resource="volumeattachments"} 1'
            assert refused in running.get("/metrics").text
            cluster.place(NAME)
            eventually(lambda: unread(control_plane) == "volumeattachments (refused)", "the operator can see it")
            cluster.rbac.patch_cluster_role(role_name, {"rules": [*rules, missing]})
            eventually(lambda: running.records("a watch is allowed again"), "it reads them as soon as it may")
            eventually(lambda: unread(control_plane) is None, "nothing is missing any more")
    finally:
        cluster.rbac.delete_cluster_role_binding(role_name)
        cluster.rbac.delete_cluster_role(role_name)


def token_of(cluster: Cluster, account: str) -> str:
    """Create a ServiceAccount and return a token of it."""
    cluster.core.create_namespaced_service_account(NAME, {"metadata": {"name": account}})
    request = {"spec": {"expirationSeconds": 3600}}
    return str(cluster.core.create_namespaced_service_account_token(account, NAME, request).status.token)


def test_a_viewer_of_a_namespace_sees_why_its_pods_are_where_they_are_and_nobody_else_does(
    control_plane: LocalCluster, cluster: Cluster, tmp_path: Path
) -> None:
    viewer, stranger = token_of(cluster, "viewer"), token_of(cluster, "stranger")
    cluster.rbac.create_namespaced_role_binding(
        NAME,
        {
            "metadata": {"name": "viewer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": NAME}],
        },
    )
    # With 1 %, the default, the second pod's details may have to wait for a third.
    with daemon(tmp_path, configuration(control_plane.kubeconfig, "decisions"), "--decision-details=100") as running:

        def ask(path: str, token: str, kind: str = "decisions") -> Any:
            answer = running.get(f"/debug/{kind}{path}", headers={"Authorization": f"Bearer {token}"})
            return answer.json() if answer.status_code == 200 else answer.status_code

        cluster.place("decisions")
        name = cluster.create("decisions")
        eventually(lambda: cluster.node_of(name), "it has a node")
        own = f"/namespaces/{NAME}?pod={name}"
        # The role reaches the API server's authorizer a moment after it was created.
        answer = eventually(lambda: isinstance(shown := ask(own, viewer), dict) and shown, "the viewer may read it")
        (decision,) = answer["items"]
        assert (decision["pod"], decision["node"]) == (f"{NAME}/{name}", cluster.node_of(name))
        assert decision["details"]["rejected"] or decision["details"]["nodes"]
        assert len(ask(f"/namespaces/{NAME}", viewer)["items"]) == 2
        assert (ask(own, stranger), ask("", viewer), ask("/namespaces/kube-system", viewer)) == (403, 403, 403)
        node = cluster.node_of(name)
        judged = ask(f"{own}&node={node}", viewer)["whyNot"]
        assert (judged["placedOn"], judged["verdict"]["rejection"], judged["verdict"]["rank"]) == (node, None, 1)
        assert {queue["queue"] for queue in ask(f"/namespaces/{NAME}", viewer, "queue")["queues"]} >= {
            "active",
            "gated",
        }
        # The role `view` has rights on pods of its namespace, and none on nodes.
        assert (ask("", viewer, "queue"), ask(f"/{node}", viewer, "nodes")) == (403, 403)
        administrator = limited_administrator(cluster)
        everywhere = eventually(lambda: isinstance(shown := ask("", administrator), dict) and shown, "it may read all")
        assert len(everywhere["items"]) == 2
        assert everywhere["configurationHash"]
        shown = eventually(
            lambda: isinstance(known := ask(f"/{node}", administrator, "nodes"), dict) and known, "a node"
        )
        assert shown["chosen"]["times"] >= 1
        assert shown["pods"]["byScheduler"]["decisions"] >= 1
        assert ask(f"/{node}/decisions", administrator, "nodes") == 403


def test_a_standby_names_the_leader_instead_of_an_answer(
    control_plane: LocalCluster, cluster: Cluster, tmp_path: Path
) -> None:
    election = {"leaderElect": True, "resourceName": "standby", "resourceNamespace": NAME}
    durations = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "1s"}
    content = configuration(control_plane.kubeconfig, "standby", leaderElection={**election, **durations})
    leases = kubernetes.CoordinationV1Api(cluster.core.api_client)
    anybody = "--authorization-always-allow-paths=/livez,/readyz,/debug/*"
    for replica in ("leader", "standby"):
        (tmp_path / replica).mkdir()
    with daemon(tmp_path / "leader", content, anybody) as leading:
        eventually(lambda: leading.get("/debug/decisions").status_code == 200, "it leads")
        with daemon(tmp_path / "standby", content, anybody) as standby:
            leader = leases.read_namespaced_lease("standby", NAME).spec.holder_identity.rpartition("_")[0]
            assert leader
            refused = standby.get("/debug/decisions")
            assert (refused.status_code, refused.text) == (503, f"this replica does not lead; {leader} does\n")
            assert standby.get(f"/debug/queue/namespaces/{NAME}").status_code == 503


def limited_administrator(cluster: Cluster) -> str:
    """A token that may read the decisions about all pods, by the right on the path, and nodes."""
    token = token_of(cluster, "decisions-reader")
    rules = [
        {"nonResourceURLs": ["/debug/decisions"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]
    name = f"{NAME}-decisions-reader"
    cluster.rbac.create_cluster_role({"metadata": {"name": name}, "rules": rules})
    cluster.rbac.create_cluster_role_binding(
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "decisions-reader", "namespace": NAME}],
        }
    )
    return token


def test_alerts_and_dashboard_ask_for_names_and_labels_of_a_live_scrape(
    control_plane: LocalCluster, cluster: Cluster, tmp_path: Path
) -> None:
    """What has no series here, as it needs an event, is what the registry declares."""
    content = configuration(control_plane.kubeconfig, NAME, source("http://127.0.0.1:9"))
    with daemon(tmp_path, content) as running:
        cluster.place(NAME)

        def bound() -> bool:
            return 'secondary_scheduler_bindings_total{outcome="bound"} 1' in running.get("/metrics").text

        eventually(bound, "the pod is counted")
        live = scraped(running.get("/metrics").text)
    assert mistakes_about(live) == {}
    used = {name for query in QUERIES.values() for name, _ in selected(query)}
    seen = {name for name in used if labels_of(name, live) is not None}
    assert {"secondary_scheduler_load_data_fresh", "scheduler_schedule_attempts_total"} <= seen
    assert len(seen) > 25, f"not seen: {sorted(used - seen)}"
