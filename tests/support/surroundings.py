"""What stands around the commands of a guide: monitoring that asks for tokens, kinds of OpenShift and of KubeVirt."""

from __future__ import annotations

import contextlib
import ssl
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from devcluster.cluster import LocalCluster
from devcluster.ports import LOOPBACK

_WAIT = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit()); signal.pause()"
IMAGES: dict[str, dict[str, Any]] = {
    "registry.example.com/secondary-scheduler/kube-scheduler": {
        "executables": {"/bin/kube-scheduler": [sys.executable, "-m", "scheduler"]},
        "appendArgs": {"/bin/kube-scheduler": ["--bind-address=$(POD_IP)"]},
        "user": 65532,
    },
    "registry.example.com/secondary-scheduler/operator": {
        "executables": {"/bin/secondary-scheduler-operator": [sys.executable, "-m", "secondary_scheduler.operator"]},
        "user": 65532,
    },
    "registry.example.com/shop/web": {
        "executables": {"/bin/web": [sys.executable, "-I", "-c", _WAIT]},
        "entrypoint": ["/bin/web"],
    },
}
"""What real nodes run as the images of the guides, whatever their tag."""
_READERS = ("system:serviceaccount:monitoring:", "system:serviceaccount:openshift-")


class Monitoring:
    """The cluster's Prometheus behind an address that asks for a token of the cluster, as kube-rbac-proxy does.

    Attributes:
        address: what the guides call https://prometheus.example.com.
        accepted: the tokens that were good, in the order in which they came first.
        refused: how many questions came without a good one.
    """

    def __init__(self, cluster: LocalCluster, api: kubernetes.ApiClient) -> None:
        self.accepted: list[str] = []
        self.refused = 0
        self._reviews = kubernetes.AuthenticationV1Api(api)
        self._known: dict[str, bool] = {}
        self._source = cluster.prometheus_url
        self._ca = str(cluster.prometheus_ca_file)
        self._token = f"Bearer {cluster.prometheus_token_file.read_text().strip()}"
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(cluster.layout.pki("prometheus.crt"), cluster.layout.pki("prometheus.key"))
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.address = f"https://{LOOPBACK}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def answer(self, method: str, path: str, token: str, kind: str, body: bytes | None) -> tuple[int, str, bytes]:
        """Status, content type and body for one question."""
        if not self._admits(token):
            self.refused += 1
            return 401, "text/plain", b"Unauthorized\n"
        if token not in self.accepted:
            self.accepted.append(token)
        headers = {"Content-Type": kind, "Authorization": self._token}
        url = self._source + path
        with requests.Session() as session:
            session.trust_env = False
            response = session.request(method, url, data=body, headers=headers, timeout=30, verify=self._ca)
        return response.status_code, response.headers["Content-Type"], response.content

    def _admits(self, token: str) -> bool:
        if token not in self._known:
            review = self._reviews.create_token_review(kubernetes.V1TokenReview(spec={"token": token})).status
            self._known[token] = bool(review.authenticated) and review.user.username.startswith(_READERS)
        return self._known[token]


def _handler(monitoring: Monitoring) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on("GET", None)

        def do_POST(self) -> None:
            self._pass_on("POST", self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _pass_on(self, method: str, body: bytes | None) -> None:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            kind = self.headers.get("Content-Type", "text/plain")
            code, kind, content = monitoring.answer(method, self.path, token, kind, body)
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the class names it
            """Nothing of it is for a test's output."""

    return Handler


def definition(group: str, version: str, kind: str, plural: str, scope: str = "Namespaced") -> dict[str, Any]:
    """A CustomResourceDefinition that takes every field."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


def define(api: kubernetes.ApiClient, *definitions: dict[str, Any]) -> None:
    """Make CRDs, and wait until they are served."""
    extensions = kubernetes.ApiextensionsV1Api(api)
    for definition in definitions:
        extensions.create_custom_resource_definition(definition)
    for definition in definitions:
        names = {"group": definition["spec"]["group"], "version": definition["spec"]["versions"][0]["name"]}
        names["plural"] = definition["spec"]["names"]["plural"]
        for _ in range(100):
            with contextlib.suppress(ApiException):
                kubernetes.CustomObjectsApi(api).list_cluster_custom_object(**names)
                break
            threading.Event().wait(0.1)


def look_like_openshift(api: kubernetes.ApiClient, monitoring: Monitoring, authority: str) -> None:
    """OpenShift's kinds and the objects of it that this project reads, as far as an API server alone can have them."""
    define(
        api,
        definition("route.openshift.io", "v1", "Route", "routes"),
        definition("config.openshift.io", "v1", "APIServer", "apiservers", "Cluster"),
        definition("config.openshift.io", "v1", "ClusterVersion", "clusterversions", "Cluster"),
        definition("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
        definition("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
    )
    core, custom = kubernetes.CoreV1Api(api), kubernetes.CustomObjectsApi(api)
    for name in ("openshift-monitoring", "openshift-config-managed"):
        core.create_namespace({"metadata": {"name": name}})
    core.create_namespaced_service_account("openshift-monitoring", {"metadata": {"name": "prometheus-k8s"}})
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]
    role = {"metadata": {"name": "cluster-monitoring-view"}, "rules": rules}
    kubernetes.RbacAuthorizationV1Api(api).create_cluster_role(role)
    core.create_namespaced_config_map(
        "openshift-config-managed",
        {"metadata": {"name": "default-ingress-cert"}, "data": {"ca-bundle.crt": authority}},
    )
    host = monitoring.address.removeprefix("https://")
    route = {
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": {"name": "thanos-querier"},
        "spec": {"host": host, "tls": {"termination": "reencrypt"}},
        "status": {"ingress": [{"host": host, "conditions": [{"type": "Admitted", "status": "True"}]}]},
    }
    custom.create_namespaced_custom_object("route.openshift.io", "v1", "openshift-monitoring", "routes", route)
    server = {"metadata": {"name": "cluster"}, "spec": {}}
    version = {"metadata": {"name": "version"}, "spec": {}, "status": {"desired": {"version": "4.21.3"}}}
    for kind, plural, status_object in (
        ("APIServer", "apiservers", server),
        ("ClusterVersion", "clusterversions", version),
    ):
        body = {"apiVersion": "config.openshift.io/v1", "kind": kind, **status_object}
        custom.create_cluster_custom_object("config.openshift.io", "v1", plural, body)


class FakeController:
    """A fake of a controller of others: it looks after its kinds, again and again, until it is closed.

    Args:
        api: of the cluster.
        definitions: CustomResourceDefinitions of its kinds.
    """

    def __init__(self, api: kubernetes.ApiClient, *definitions: dict[str, Any]) -> None:
        self._core, self._custom = kubernetes.CoreV1Api(api), kubernetes.CustomObjectsApi(api)
        self._stopped = threading.Event()
        define(api, *definitions)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop working; what was written stays."""
        self._stopped.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stopped.wait(0.3):
            # What is not there yet, or what somebody else changed in between, is seen in the next round.
            with contextlib.suppress(ApiException):
                self._reconcile()

    def _reconcile(self) -> None:
        raise NotImplementedError


class FakeVirtController(FakeController):
    """A fake of what KubeVirt's virt-controller does for a scheduler: a VirtualMachine gets an instance, that its pod.

    The pod looks like virt-launcher's as far as a scheduler reads it; no machine runs in it.
    """

    _GROUP, _VERSION = "kubevirt.io", "v1"
    _MACHINES, _INSTANCES = "virtualmachines", "virtualmachineinstances"

    def __init__(self, api: kubernetes.ApiClient) -> None:
        super().__init__(
            api,
            definition(self._GROUP, self._VERSION, "VirtualMachine", self._MACHINES),
            definition(self._GROUP, self._VERSION, "VirtualMachineInstance", self._INSTANCES),
        )

    def _reconcile(self) -> None:
        instances = self._list(self._INSTANCES)
        for (namespace, name), machine in self._list(self._MACHINES).items():
            if (namespace, name) not in instances and "deletionTimestamp" not in machine["metadata"]:
                spec = machine["spec"]["template"]["spec"]
                instance = _owned_by(machine, {"name": name}, spec) | {"kind": "VirtualMachineInstance"}
                self._create(namespace, {"apiVersion": machine["apiVersion"], **instance})
        for (namespace, name), instance in instances.items():
            labels = {"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": name}
            pods = self._core.list_namespaced_pod(namespace, label_selector=f"vm.kubevirt.io/name={name}").items
            if pods or "deletionTimestamp" in instance["metadata"]:
                continue
            container = {"name": "compute", "image": "registry.example.com/shop/web:1"}
            spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
            if scheduler := instance["spec"].get("schedulerName"):
                spec["schedulerName"] = scheduler
            metadata = {"generateName": f"virt-launcher-{name}-", "labels": labels}
            self._core.create_namespaced_pod(namespace, _owned_by(instance, metadata, spec))

    def _list(self, plural: str) -> dict[tuple[str, str], dict[str, Any]]:
        items = self._custom.list_cluster_custom_object(self._GROUP, self._VERSION, plural)["items"]
        return {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in items}

    def _create(self, namespace: str, instance: Mapping[str, Any]) -> None:
        self._custom.create_namespaced_custom_object(
            self._GROUP, self._VERSION, namespace, self._INSTANCES, dict(instance)
        )


def _owned_by(owner: Mapping[str, Any], metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"metadata": {**metadata, "ownerReferences": [{**reference, "controller": True}]}, "spec": dict(spec)}
