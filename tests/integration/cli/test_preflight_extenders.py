"""`preflight` on the extenders of a configuration, over real HTTP and TLS, without a cluster."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from scheduler.observe import use_self_signed
from tests.support.simulating import Result, run

pytestmark = [pytest.mark.integration]


@contextmanager
def extender(status_of: Callable[[str], int], context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """An extender that answers GET with a status per path; gives its address and what it was asked."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(f"GET {self.path}")
            self.send_response(status_of(self.path))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            requests.append(f"POST {self.path}")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


def preflight(directory: Path, url: str, **fields: Any) -> tuple[Result, dict[str, tuple[str, str]]]:
    """Run the command; returns status and finding of each check."""
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "a"}],
        "extenders": [{"urlPrefix": url, "filterVerb": "filter", "bindVerb": "bind", "httpTimeout": "10s", **fields}],
    }
    file = directory / "config.yaml"
    file.write_text(yaml.safe_dump(content))
    result = run("preflight", "--config", file, "-o", "json")
    (source,) = json.loads(result.out)["sources"]
    assert source["source"] == f"extender {url}"
    return result, {check["name"]: (check["status"], check["found"]) for check in source["checks"]}


def test_an_extender_that_answers_passes_and_no_verb_is_called(tmp_path: Path) -> None:
    with extender(lambda path: HTTPStatus.METHOD_NOT_ALLOWED) as (url, requests):
        result, checks = preflight(tmp_path, url, preemptVerb="preempt", prioritizeVerb="score", weight=1)
    assert result.code == 0
    assert [status for status, _ in checks.values()] == ["ok"] * 6
    assert checks["filterVerb"] == ("ok", f"{url}/filter: GET is answered with 405")
    assert sorted(requests) == ["GET /bind", "GET /filter", "GET /preempt", "GET /score"]


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (HTTPStatus.NOT_FOUND, "warning", 0),
        (HTTPStatus.INTERNAL_SERVER_ERROR, "warning", 0),
        (HTTPStatus.UNAUTHORIZED, "failed", 1),
        (HTTPStatus.FOUND, "failed", 1),
    ],
)
def test_what_a_verb_answers_names_its_url(answer: int, status: str, code: int, tmp_path: Path) -> None:
    with extender(lambda path: answer if path == "/filter" else HTTPStatus.BAD_REQUEST) as (url, _):
        result, checks = preflight(tmp_path, url)
    assert result.code == code
    assert checks["filterVerb"] == (status, f"{url}/filter: GET is answered with {int(answer)}")
    assert checks["bindVerb"][0] == "ok"


def test_an_extender_that_is_not_there_fails_and_its_verbs_are_skipped(tmp_path: Path) -> None:
    result, checks = preflight(tmp_path, "http://127.0.0.1:1")
    assert result.code == 1
    assert checks["reachable"] == ("failed", "127.0.0.1:1: Connection refused")
    assert checks["filterVerb"] == ("skipped", "not checked, as reachable failed")


def test_a_certificate_is_checked_as_the_scheduler_would(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    use_self_signed(context, "127.0.0.1")
    with extender(lambda path: HTTPStatus.BAD_REQUEST, context) as (url, _):
        result, checks = preflight(tmp_path, url)
        assert (result.code, checks["TLS"][0]) == (1, "failed")
        assert "self-signed certificate" in checks["TLS"][1]
        result, checks = preflight(tmp_path, url, enableHTTPS=True, tlsConfig={"insecure": True})
        assert (result.code, checks["TLS"]) == (0, ("warning", "its certificate is not verified"))
        assert checks["filterVerb"][0] == "ok"


def test_files_of_the_schedulers_pod_are_not_needed_here(tmp_path: Path) -> None:
    result, checks = preflight(tmp_path, "https://127.0.0.1:1", tlsConfig={"caFile": "/nowhere/ca.crt"})
    assert result.code == 0
    assert checks["TLS"][0] == "warning"
    assert "/nowhere/ca.crt" in checks["TLS"][1]
    assert checks["filterVerb"] == ("skipped", "not checked, as the files of tlsConfig are not here")
