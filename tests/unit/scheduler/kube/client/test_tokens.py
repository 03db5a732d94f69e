"""Reviews and requests of tokens: what is sent, and what an answer that holds none comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.kube.client import MalformedResponse, SyncConnection, request_token, review_token


class Reviews:
    """Remembers what is posted."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, dict[str, Any]]] = []

    async def post(self, path: str, body: dict[str, Any], /) -> bytes:
        self.posted.append((path, body))
        return b'{"status": {}}'


@pytest.mark.parametrize(
    ("audience", "spec"),
    [("", {"token": "canary"}), ("page", {"token": "canary", "audiences": ["page"]})],
)
async def test_a_review_holds_the_token_and_whom_it_must_be_for(audience: str, spec: dict[str, Any]) -> None:
    reviews = Reviews()
    assert await review_token(reviews, "canary", audience) == b'{"status": {}}'
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    assert reviews.posted == [("/apis/authentication.k8s.io/v1/tokenreviews", review)]


class AnsweringConnection(SyncConnection):
    """Answers every request with the same body."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str, Any]] = []

    def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> bytes:
        self.requests.append((method, path, body))
        return self.answer


def test_a_token_is_asked_for_the_account_and_the_time() -> None:
    connection = AnsweringConnection(json.dumps({"status": {"token": "canary"}}).encode())
    assert request_token(connection, "shop", "on-call", 600) == "canary"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600},
    }
    assert connection.requests == [("POST", "/api/v1/namespaces/shop/serviceaccounts/on-call/token", request)]


@pytest.mark.parametrize("answer", [b"{}", b'{"status": null}', b'{"status": {"token": null}}'])
def test_an_answer_without_a_token_is_none(answer: bytes) -> None:
    assert request_token(AnsweringConnection(answer), "shop", "on-call", 600) == ""


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"status": {"token": 7}}', b"\xff"])
def test_an_answer_of_something_else_is_refused_without_its_text(answer: bytes) -> None:
    with pytest.raises(MalformedResponse, match=r"^POST /api/v1/namespaces/shop/serviceaccounts/on-call/token: "):
        request_token(AnsweringConnection(answer), "shop", "on-call", 600)
