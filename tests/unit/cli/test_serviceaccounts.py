"""`--as-service-account`: whose token is asked for and shown, and what is missing, with a fake API server."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli.connecting import asking_as
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.clusterstatus.schedulerclient import SchedulerAnswer
from tests.support.simulating import run


class TokenServer(ThreadingHTTPServer):
    """Answers each TokenRequest with a status, and remembers the paths."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.paths: list[str] = []
        self.requests: list[Any] = []
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    @property
    def config(self) -> ClientConfig:
        return ClientConfig(server=f"http://127.0.0.1:{self.server_address[1]}", namespace="shop", token="mine")


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.server.requests.append(json.loads(body))
        answer = b'{"status": {"token": "theirs"}}'
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("account", "path", "name"),
    [
        ("on-call", "/api/v1/namespaces/shop/serviceaccounts/on-call/token", "ServiceAccount shop/on-call"),
        ("ops/on-call", "/api/v1/namespaces/ops/serviceaccounts/on-call/token", "ServiceAccount ops/on-call"),
    ],
)
def test_the_scheduler_is_shown_a_short_lived_token_of_that_account(account: str, path: str, name: str) -> None:
    server = TokenServer(201)
    asker = asking_as(server.config, account)
    server.close()
    assert asker is not None
    assert (asker.token, asker.source, asker.cert_file) == ("theirs", name, None)
    assert (server.paths, server.requests[0]["spec"]) == ([path], {"expirationSeconds": 600})
    assert "theirs" not in repr(asker)


def test_without_the_option_nobody_is_asked_for_a_token() -> None:
    assert asking_as(ClientConfig(server="http://127.0.0.1:1"), None) is None


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (403, "this user needs create on serviceaccounts/token for on-call in namespace shop"),
        (404, "there is no ServiceAccount shop/on-call"),
        (500, "--as-service-account on-call: POST "),
    ],
)
def test_what_is_missing_is_said_in_one_line(status: int, says: str) -> None:
    server = TokenServer(status)
    with pytest.raises(CommandError) as refused:
        asking_as(server.config, "on-call")
    server.close()
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_right_that_the_account_lacks_is_named_as_the_accounts() -> None:
    refused = SchedulerAnswer(403, b"the token is not allowed to read this", "ServiceAccount shop/on-call")
    assert refused.refusal("to get nodes", "").endswith("; ServiceAccount shop/on-call needs to get nodes")


@pytest.mark.parametrize("name", ["On-Call", "a/b/c", "/a", "a/", "-a", "system:serviceaccount:a:b"])
@pytest.mark.parametrize("command", [["explain", "queue"], ["top", "nodes"], ["status"]])
def test_a_name_that_no_account_can_have_is_refused(command: list[str], name: str) -> None:
    refused = run(*command, f"--as-service-account={name}")
    assert refused.code == 2
    assert "neither NAME nor NAMESPACE/NAME of a ServiceAccount" in refused.err
