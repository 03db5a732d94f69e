"""A user without rights: every command says which right is missing, as `status` does."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.kube.client import Forbidden, Unauthorized
from scheduler.kube.client.errors import api_error
from secondary_scheduler.cli.errors import explained
from tests.support.simulating import run


class Handler(http.server.BaseHTTPRequestHandler):
    """An API server that says its version and nothing else."""

    status = 403

    def do_GET(self) -> None:
        self._answer(*((200, b'{"gitVersion": "v1.34.4"}') if self.path == "/version" else (self.status, b"no")))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(self.status, b"no")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Server(http.server.ThreadingHTTPServer):
    """What a client that hangs up leaves behind is not printed among the command's own lines."""

    def handle_error(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        file = tmp_path_factory.mktemp("kubeconfig") / "kubeconfig"
        context = {"name": "c", "context": {"cluster": "c"}}
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        file.write_text(json.dumps({"current-context": "c", "contexts": [context], "clusters": [cluster]}))
        yield file
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("command", "code", "right"),
    [
        ("snapshot", 1, "list nodes"),
        ("snapshot --record 1s", 1, "list nodes"),
        ("ui", 1, "list nodes"),
        ("rebalance plan", 1, "list nodes"),
        ("top nodes", 1, "list nodes"),
        ("preflight --address http://127.0.0.1:1", 1, "list nodes"),
        ("explain pod web", 1, "list leases in namespace openshift-secondary-scheduler-operator"),
        ("explain queue", 1, "list leases in namespace openshift-secondary-scheduler-operator"),
        ("explain node n1", 1, "list leases in namespace openshift-secondary-scheduler-operator"),
        ("opt-in status", 1, "get /apis/admissionregistration.k8s.io/"),
        ("opt-in status -A", 1, "get /apis/admissionregistration.k8s.io/"),
        ("opt-in check", 1, "get namespaces"),
        ("status", 1, "list secondaryschedulers"),
        ("version", 0, "list deployments in namespace openshift-secondary-scheduler-operator"),
    ],
)
def test_a_command_that_is_refused_names_the_right(
    kubeconfig: Path, tmp_path: Path, command: str, code: int, right: str
) -> None:
    file = ("--file", tmp_path / "out") if command.startswith("snapshot") else ()
    done = run(*command.split(), "--kubeconfig", kubeconfig, *file)
    assert done.code == code, done.err
    assert f"this user needs to {right}" in done.err + done.out
    assert not re.search(r"\b403\b", done.err)  # a port may end in these digits
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        ("GET", "/api/v1/nodes", "list nodes"),
        ("GET", "/api/v1/nodes/n1", "get nodes"),
        ("GET", "/api/v1/pods?limit=5", "list pods in all namespaces"),
        ("GET", "/api/v1/namespaces/shop/pods", "list pods in namespace shop"),
        ("GET", "/api/v1/namespaces", "list namespaces"),
        ("GET", "/api/v1/namespaces/shop", "get namespaces"),
        ("GET", "/apis/apps/v1/namespaces/shop/deployments/web", "get deployments in namespace shop"),
        ("POST", "/api/v1/namespaces/shop/serviceaccounts/a/token", "create serviceaccounts/token in namespace shop"),
        ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/s/leases/l", "patch leases in namespace s"),
        ("GET", "/debug/queue", "get /debug/queue"),
        ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
    ],
)
def test_the_right_is_told_from_the_request(method: str, path: str, right: str) -> None:
    error = api_error(method, path, 403, b"")
    assert isinstance(error, Forbidden)
    assert error.right == right


def test_a_user_whom_nobody_knows_is_told_to_log_in() -> None:
    error = api_error("GET", "/api/v1/nodes", 401, b"")
    assert isinstance(error, Unauthorized)
    assert "log in again" in explained(error)
