"""TLS sessions with a real API server: it resumes them, and knows the user all the same."""

from __future__ import annotations

import dataclasses
import json
import ssl
import time
from typing import Any

import pytest

from scheduler.kube.client import ClientConfig, KubeClient, api_path
from scheduler.kube.client.credentials import Credentials
from scheduler.kube.client.http import RequestWriter
from scheduler.kube.client.pool import ConnectionPool, ServerAddress

pytestmark = pytest.mark.integration

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def reviewed(config: ClientConfig, times: int) -> list[tuple[bool, str]]:
    """Ask who we are on so many connections, one after the other; returns whether each resumed a session, and the
    answer."""
    credentials = Credentials(config)
    tls = credentials.ssl_context()
    opened: list[ssl.SSLObject] = []
    wrap = tls.wrap_bio

    def noting(*args: Any, **kwargs: Any) -> ssl.SSLObject:
        opened.append(wrap(*args, **kwargs))
        return opened[-1]

    tls.wrap_bio = noting  # type: ignore[method-assign]
    address = ServerAddress.of(config.server, config.tls_server_name)
    connections = ConnectionPool(address, limit=None)
    request = RequestWriter(address.netloc, "tests").write(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        credentials.authorization(),
        json.dumps(REVIEW).encode(),
    )
    seen = []
    for _ in range(times):
        connection = await connections.open(tls, time.monotonic() + 60)
        answer = await connection.ask(request, timeout=60, limit=1 << 20)
        user = json.loads(answer.body or b"{}")["status"]["userInfo"]["username"]
        seen.append((bool(opened[-1].session_reused), user))
        connections.release(connection)
        connection.abort()
    await connections.close()
    return seen


async def test_the_api_server_knows_the_user_of_a_resumed_session_by_certificate(config: ClientConfig) -> None:
    [(first, user), *others] = await reviewed(config, 3)
    assert not first
    assert others == [(True, user)] * 2


async def test_the_api_server_knows_the_user_of_a_resumed_session_by_token(
    config: ClientConfig, client: KubeClient, namespace: str
) -> None:
    account = api_path("v1", "serviceaccounts", namespace=namespace)
    await client.post(account, {"metadata": {"name": "someone"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = json.loads(await client.post(f"{account}/someone/token", request))["status"]["token"]
    by_token = dataclasses.replace(config, token=token, cert_file=None, key_file=None, cert_data=None, key_data=None)
    user = f"system:serviceaccount:{namespace}:someone"
    assert await reviewed(by_token, 3) == [(False, user), (True, user), (True, user)]
