"""What the API server is asked about a pod, and which of its answers are answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.kube.client import KubeError, SyncConnection
from scheduler.kube.client.errors import api_error
from secondary_scheduler.cli.optin.probing import Case, ask

CASE = Case("ordinary pod", "shop", {"app": "web"})


class Connection(SyncConnection):
    """Answers with a pod, or fails."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str, Any, Any]] = []

    def request(self, method: str, path: str, *, body: Any = None, params: Any = None, **_: Any) -> bytes:
        self.requests.append((method, path, body, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return json.dumps(self.answer).encode()


def test_nothing_is_created() -> None:
    connection = Connection({"spec": {"schedulerName": "mine"}})
    answer = ask(connection, CASE)
    assert (answer.case, answer.scheduler_name, answer.refusal) == (CASE, "mine", "")
    assert connection.requests == [("POST", "/api/v1/namespaces/shop/pods", CASE.manifest(), {"dryRun": "All"})]


@pytest.mark.parametrize("pod", [{}, {"spec": None}, {"spec": {"schedulerName": ""}}])
def test_a_pod_without_a_scheduler_is_the_default_schedulers(pod: dict[str, Any]) -> None:
    assert ask(Connection(pod), CASE).scheduler_name == "default-scheduler"


@pytest.mark.parametrize("status", [400, 403, 409, 422])
def test_a_refusal_is_an_answer_in_printable_words(status: int) -> None:
    body = json.dumps({"kind": "Status", "message": "denied by \x1b[31mguard"}).encode()
    answer = ask(Connection(api_error("POST", "/x", status, body)), CASE)
    assert answer.scheduler_name == ""
    assert "guard" in answer.refusal
    assert "\x1b" not in answer.refusal


@pytest.mark.parametrize("error", [api_error("POST", "/x", 500, b""), KubeError("no connection")])
def test_no_answer_is_an_error(error: KubeError) -> None:
    with pytest.raises(KubeError) as raised:
        ask(Connection(error), CASE)
    assert raised.value is error
