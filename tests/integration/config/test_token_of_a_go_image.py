"""The real Go scheduler asks Prometheus with the token that a stack writes into its configuration.

Without an API server: its plugins ask when they are made, before it waits for the objects of the cluster. That it
places pods by the answers is in tests/e2e/test_few_settings.py.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler import __version__
from stacks.checking import check
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

TOKEN = "canary-token-31415926"
EMPTY = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()
DEAD_KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "dead",
    "clusters": [{"name": "dead", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "dead", "user": {}}],
    "contexts": [{"name": "dead", "context": {"cluster": "dead", "user": "dead"}}],
}


class Prometheus(ThreadingHTTPServer):
    """Answers every query with nothing, and keeps the credentials that come with it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.authorizations: list[str | None] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Prometheus)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.authorizations.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(EMPTY)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the class names it
        """Nothing of it is for a test's output."""


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    with Prometheus() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def test_the_go_plugins_ask_with_the_token_of_the_stacks_configuration(prometheus: Prometheus, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "kubeconfig").write_text(json.dumps(DEAD_KUBECONFIG))
    credentials = {"token": {"fromFileInEnv": "TOKEN_FILE"}, "allowTokenInConfigMap": True, "allowInsecure": True}
    address = f"http://127.0.0.1:{prometheus.server_port}"
    values = {
        "schedulerImage": "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7",
        "operatorImage": f"localhost/secondary-scheduler/operator:{__version__}",
        "metricProvider": json.dumps({"type": "Prometheus", "address": address, "credentials": credentials}),
    }
    _, profile, _ = check(values, set(), {"TOKEN_FILE": str(tmp_path / "token")}, with_kubeconfig=False)
    configuration = yaml.safe_load(profile.content)
    configuration |= {
        "clientConnection": {"kubeconfig": str(tmp_path / "kubeconfig")},
        "leaderElection": {"leaderElect": False},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(configuration))
    binary = binaries.ensure(["scheduler-plugins"], SilentReporter())["scheduler-plugins"]
    command = [str(binary), f"--config={tmp_path / 'config.yaml'}", "--secure-port=0"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            eventually(lambda: bool(prometheus.authorizations), "a query")
        finally:
            process.terminate()
    assert set(prometheus.authorizations) == {f"Bearer {TOKEN}"}
