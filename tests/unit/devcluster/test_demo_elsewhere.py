"""What `make demo CLUSTER=kubeconfig` says of a cluster that it cannot use, and what it gives its scheduler."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from devcluster.demo.elsewhere.__main__ import main
from devcluster.demo.elsewhere.configuration import configuration
from devcluster.demo.elsewhere.running import kubeconfig_text
from devcluster.demo.elsewhere.target import TargetNode
from devcluster.demo.elsewhere.workload import MadeUpLoads
from scheduler.config import load_configuration
from scheduler.kube.client import ClientConfig
from scheduler.load import parse_watcher


def kubeconfig(directory: Path, server: str, user: dict[str, object] | None = None) -> Path:
    file = directory / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("mine", "other")],
        "current-context": "mine",
    }
    file.write_text(yaml.safe_dump(document))
    return file


class _FakeVersion(BaseHTTPRequestHandler):
    """A fake API server that only says its version."""

    def do_GET(self) -> None:
        fields = ("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform")
        version = {"major": "1", "minor": "27+", "gitVersion": "v1.27.3", **dict.fromkeys(fields, "")}
        body = json.dumps(version).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def old_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _FakeVersion) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_no_kubeconfig_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "--yes", "--kubeconfig", str(tmp_path / "absent"))
    assert line.startswith(f"demo: {tmp_path}/absent names no cluster (")


def test_an_unknown_context_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert "has no context 'prod'" in refused(capsys, "--yes", "--kubeconfig", str(file), "--context", "prod")


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "--yes", "--kubeconfig", str(kubeconfig(tmp_path, "http://127.0.0.1:1")))
    assert line.startswith("demo: context mine: http://127.0.0.1:1 does not answer (")


def test_a_cluster_that_is_too_old_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old_server: str
) -> None:
    line = refused(capsys, "--yes", "--kubeconfig", str(kubeconfig(tmp_path, old_server)), "--context", "other")
    assert line == ("demo: context other: the cluster has Kubernetes v1.27.3; the scheduler needs 1.29 or newer")


def test_the_scheduler_takes_the_configuration(tmp_path: Path) -> None:
    loads = MadeUpLoads([TargetNode("a", 4000)])
    with loads.served():
        file = tmp_path / "config.yaml"
        file.write_text(configuration(loads.settings(), None))
        load_configuration(file.read_text(), source="test")


def test_a_load_watcher_s_reader_understands_the_made_up_loads() -> None:
    loads = MadeUpLoads([TargetNode("a", 4000), TargetNode("b", 4000)])
    loads.change("b", {"cpu": 0.5})
    reading = parse_watcher(json.dumps(loads.document()).encode(), "test")
    assert {name: load.cpu_average for name, load in reading.loads.items()} == {"a": 85.0, "b": 50.0}


def test_the_scheduler_s_kubeconfig_is_that_of_the_context_only(tmp_path: Path) -> None:
    file = kubeconfig(
        tmp_path, "https://127.0.0.1:6443", {"token": "t", "client-certificate": "crt"} | {"client-key": "key"}
    )
    before = ClientConfig.load(file, "other")
    copy = tmp_path / "copy"
    copy.write_text(kubeconfig_text(before))
    after = ClientConfig.load(copy)
    assert (after.server, after.token, after.cert_file, after.key_file) == (
        before.server,
        "t",
        tmp_path / "crt",
        tmp_path / "key",
    )
