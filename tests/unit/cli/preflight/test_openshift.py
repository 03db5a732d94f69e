"""OpenShift's routes, CA, tokens and Secrets, from objects that a fake API server has."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

import pytest

from devcluster import pki
from scheduler.kube.client import ClientConfig
from scheduler.kube.client.errors import api_error
from scheduler.kube.client.sync import SyncConnection
from secondary_scheduler.cli.preflight import openshift
from tests.unit.scheduler.load.fakes import FakeService, send

ROUTES = "/apis/route.openshift.io/v1/namespaces/openshift-monitoring/routes"


class FakeApi(FakeService):
    """An API server with these objects by path; a number instead of one is the status that it answers with."""

    def __init__(self, objects: dict[str, Any]) -> None:
        super().__init__()

        def answer(handler: BaseHTTPRequestHandler) -> None:
            stored = objects.get(urlsplit(handler.path).path, 404)
            status = stored if isinstance(stored, int) else 200
            body = {"kind": "Status", "status": "Failure", "code": status} if isinstance(stored, int) else stored
            send(handler, json.dumps(body).encode(), status)

        self.answer = answer


def connection(objects: dict[str, Any]) -> SyncConnection:
    return SyncConnection(ClientConfig(server=FakeApi(objects).url), timeout=5)


def route(host: str, *, admitted: str = "True", tls: bool = True) -> dict[str, Any]:
    conditions = [{"type": "Admitted", "status": admitted}]
    spec = {"host": host, "tls": {"termination": "reencrypt"}} if tls else {"host": host}
    return {"spec": spec, "status": {"ingress": [{"host": host, "conditions": conditions}]}}


def test_an_api_server_without_routes_is_not_openshift() -> None:
    assert not openshift.is_openshift(connection({}))
    assert openshift.is_openshift(connection({"/apis/route.openshift.io/v1": {}}))


@pytest.mark.parametrize(
    ("objects", "address"),
    [
        ({"thanos-querier": route("thanos.apps"), "prometheus-k8s": route("prom.apps")}, "https://thanos.apps"),
        ({"prometheus-k8s": route("prom.apps")}, "https://prom.apps"),
        (
            {"thanos-querier": route("thanos.apps", admitted="False"), "prometheus-k8s": route("prom.apps")},
            "https://prom.apps",
        ),
        ({"thanos-querier": route("thanos.apps", tls=False)}, "http://thanos.apps"),
    ],
)
def test_the_first_admitted_route_to_the_monitoring_is_taken(objects: dict[str, Any], address: str) -> None:
    api = connection({f"{ROUTES}/{name}": content for name, content in objects.items()})
    assert openshift.find_route(api).address == address


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ({}, "no route thanos-querier or prometheus-k8s in openshift-monitoring"),
        ({f"{ROUTES}/thanos-querier": 403}, "no right to read routes"),
    ],
)
def test_without_a_route_the_error_says_what_to_do(objects: dict[str, Any], reason: str) -> None:
    with pytest.raises(openshift.OpenShiftError, match=reason) as refused:
        openshift.find_route(connection(objects))
    assert "--address" in str(refused.value)


def test_the_ca_of_the_ingress_is_optional() -> None:
    path = "/api/v1/namespaces/openshift-config-managed/configmaps/default-ingress-cert"
    pem = pki.CertificateAuthority("ingress").pair.certificate.decode()
    assert openshift.ingress_authority(connection({path: {"data": {"ca-bundle.crt": pem}}})) == pem
    assert openshift.ingress_authority(connection({path: 403})) is None
    assert openshift.ingress_authority(connection({path: {"data": {"ca-bundle.crt": "nothing"}}})) is None


def test_an_error_about_a_secret_does_not_show_its_content() -> None:
    path = "/api/v1/namespaces/openshift-secondary-scheduler-operator/secrets/metrics"
    data = {"token": base64.b64encode(b"canary").decode()}
    assert openshift.secret_values(connection({path: {"data": data}}), "metrics") == {"token": "canary"}
    with pytest.raises(openshift.OpenShiftError, match=r"Secret .*/metrics"):
        openshift.secret_values(connection({}), "metrics")
    with pytest.raises(openshift.OpenShiftError, match="not text"):
        openshift.secret_values(connection({path: {"data": {"token": "/w=="}}}), "metrics")


class TokenConnection(SyncConnection):
    """Answers a TokenRequest with a body or a failure."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str, Any]] = []

    def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> bytes:
        self.requests.append((method, path, body["spec"]))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_token_is_made_for_the_account_and_ten_minutes() -> None:
    answering = TokenConnection(b'{"status": {"token": "canary"}}')
    assert openshift.bound_token(answering, "ns/name") == "canary"
    assert answering.requests == [
        ("POST", "/api/v1/namespaces/ns/serviceaccounts/name/token", {"expirationSeconds": 600})
    ]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (api_error("POST", "/x", 404, b""), "there is no ServiceAccount ns/name; give another with --service-account"),
        (
            api_error("POST", "/x", 403, b""),
            r"no right to create a token of ns/name \(serviceaccounts/token\); ask for it, or give --token-file",
        ),
        (b"{}", "the API server answered without a token of ns/name; give --token-file"),
    ],
)
def test_without_a_token_the_error_says_what_to_do(answer: bytes | Exception, reason: str) -> None:
    with pytest.raises(openshift.OpenShiftError, match=f"^{reason}$"):
        openshift.bound_token(TokenConnection(answer), "ns/name")
