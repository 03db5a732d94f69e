"""Calling an extender over real HTTP and TLS: answers, statuses, timeouts, nonsense, and what is too large."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import Raw as RawJson

from devcluster.pki import CertificateAuthority
from scheduler.config import Extender as ExtenderConfiguration, load_configuration
from scheduler.engine.extenders import MIN_ANSWER_BYTES, ExtenderEndpoint, HTTPExtenders
from scheduler.framework import (
    ExtenderError,
    FilterAnswer,
    FilterQuestion,
    PodInfo,
    PrioritizeAnswer,
    PrioritizeQuestion,
)
from scheduler.observe import Metrics, use_self_signed
from tests.support.extender import Behavior, Raw, extender_running
from tests.unit.scheduler.engine.pods import pod_info

pytestmark = [pytest.mark.integration]

T = TypeVar("T")
POD = pod_info("p")


class FakeObjects:
    """Pods and nodes that consist of their name."""

    async def pod(self, pod: PodInfo) -> RawJson:
        return RawJson(json.dumps({"metadata": {"name": pod.name}}).encode())

    async def nodes(self, names: Any) -> list[RawJson]:
        return [RawJson(json.dumps({"metadata": {"name": name}}).encode()) for name in names]


def configured(url: str, **fields: Any) -> list[ExtenderConfiguration]:
    extender = {"urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 2, **fields}
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "a"}],
        "extenders": [extender],
    }
    return load_configuration(content, source="test").model.extenders


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


async def asked(url: str, *nodes: str, **fields: Any) -> tuple[FilterAnswer, PrioritizeAnswer]:
    http = HTTPExtenders(configured(url, **fields), FakeObjects(), Metrics())
    try:
        extender = http.in_order[0]
        kept = await http.ask(FilterQuestion(extender, POD, nodes))
        scores = await http.ask(PrioritizeQuestion((extender,), POD, nodes))
        assert isinstance(kept, FilterAnswer)
        assert isinstance(scores, PrioritizeAnswer)
        return kept, scores
    finally:
        await http.close()


def everything(verb: str, body: Any) -> Any:
    names = body["NodeNames"] or [node["metadata"]["name"] for node in body["Nodes"]["items"]]
    if verb == "prioritize":
        return [{"Host": name, "Score": 3} for name in names]
    if body["NodeNames"] is None:
        return {"Nodes": {"items": [{"metadata": {"name": names[0]}}]}, "failedNodes": {names[-1]: "not the first"}}
    return {"NODENAMES": names[:1], "FailedNodes": None, "Unknown": 1}


@pytest.mark.parametrize("by_name", [True, False])
def test_a_call_has_upstreams_body_and_its_answer_is_read_in_any_case(by_name: bool) -> None:
    with extender_running(everything) as server:
        kept, scores = run(asked(f"{server.url}/prefix/", "n1", "n2", nodeCacheCapable=by_name))
    assert kept.kept == ("n1",)
    assert kept.failed == ({} if by_name else {"n2": "not the first"})
    assert scores.scores == {"n1": 60, "n2": 60}
    items = [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}]
    body = {
        "Pod": {"metadata": {"name": "p"}},
        "Nodes": None if by_name else {"metadata": {}, "items": items},
        "NodeNames": ["n1", "n2"] if by_name else None,
    }
    assert server.calls == [("/prefix/filter", body), ("/prefix/prioritize", body)]
    assert server.content_types == ["application/json"] * 2
    assert server.encodings == ["identity"] * 2


BOMB = b'{"NodeNames":[' + b'"' + b"x" * MIN_ANSWER_BYTES + b'"]}'


@pytest.mark.parametrize(
    ("behavior", "cause"),
    [
        (lambda verb, body: Raw(500, b"secret details"), ", code 500"),
        (lambda verb, body: Raw(302, headers={"Location": "http://127.0.0.1:1/"}), ", code 302"),
        (lambda verb, body: Raw(body=b"<html>"), ": the answer cannot be read: JSON is malformed: invalid character"),
        (lambda verb, body: Raw(body=b"[" * 100_000), ": the answer cannot be read: "),
        (lambda verb, body: Raw(body=b""), ": the answer cannot be read: Input data was truncated"),
        (lambda verb, body: Raw(body=BOMB), f": the answer is larger than {MIN_ANSWER_BYTES} bytes"),
        (lambda verb, body: {"NodeNames": "n1"}, ": NodeNames cannot be read: Expected `array`, got `str`"),
        (lambda verb, body: Raw(delay=30), ": no answer within 0.2 s"),
    ],
    ids=["status", "redirect", "html", "nested", "empty", "large", "type", "late"],
)
def test_an_answer_that_is_none_is_an_error_in_one_line(behavior: Behavior, cause: str) -> None:
    timeout = "200ms" if "0.2 s" in cause else "60s"
    with extender_running(behavior) as server:
        kept, scores = run(asked(server.url, "n1", nodeCacheCapable=True, httpTimeout=timeout))
        assert kept.error.startswith(f"failed filter with extender at URL {server.url}/filter{cause}")
        assert "\n" not in kept.error
        assert len(kept.error) < 700
        assert scores.scores == {}
        assert len(scores.errors) == 1


def test_an_extender_that_is_not_there_is_an_error() -> None:
    kept, _ = run(asked("http://127.0.0.1:1", "n1"))
    assert kept.error.startswith("failed filter with extender at URL http://127.0.0.1:1/filter: Cannot connect to host")


def test_a_node_that_was_not_asked_about_is_an_error_in_upstreams_words() -> None:
    with extender_running(lambda verb, body: {"NodeNames": ["n9"]}) as server:
        kept, _ = run(asked(server.url, "n1", nodeCacheCapable=True))
        assert kept.error == (
            f'extender "{server.url}" claims a filtered node "n9" which is not found in the input node list'
        )


def test_names_from_an_extender_that_gets_nodes_leave_no_node_and_an_error_is_its_own_text() -> None:
    with extender_running(lambda verb, body: {"NodeNames": ["n1"]}) as server:
        assert run(asked(server.url, "n1"))[0] == FilterAnswer()
    with extender_running(lambda verb, body: {"Error": "no\nlicence"}) as server:
        assert run(asked(server.url, "n1"))[0].error == "no licence"


def test_tls_settings_that_cannot_be_used_are_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="cannot use the certificate authority"):
        ExtenderEndpoint(configured("https://x", tlsConfig={"caFile": "/nowhere"})[0])
    assert ExtenderEndpoint(configured("https://x")[0]).timeout == 5.0


async def _call(endpoint: ExtenderEndpoint) -> bytes:
    try:
        return await endpoint.call("filter", b"{}", lambda body: body)
    finally:
        await endpoint.close()


def test_the_certificate_has_to_be_of_the_name_that_the_configuration_says(tmp_path: Path) -> None:
    authority = CertificateAuthority("extenders")
    serving = authority.server("extender.example", ["extender.example"], [])
    (tmp_path / "serving").write_bytes(serving.certificate + serving.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "serving")
    trust = {"caData": base64.b64encode(authority.pair.certificate).decode()}
    with extender_running(lambda verb, body: {}, context) as server:
        named = {**trust, "serverName": "extender.example"}
        assert run(_call(ExtenderEndpoint(configured(server.url, tlsConfig=named)[0]))) == b"{}"
        with pytest.raises(ExtenderError, match="certificate"):
            run(_call(ExtenderEndpoint(configured(server.url, tlsConfig=trust)[0])))


def test_a_certificate_is_verified_unless_the_configuration_says_otherwise() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    use_self_signed(context, "127.0.0.1")
    with extender_running(lambda verb, body: {}, context) as server:
        with pytest.raises(ExtenderError, match="certificate verify failed"):
            run(_call(ExtenderEndpoint(configured(server.url)[0])))
        for settings in ({"tlsConfig": {"insecure": True}}, {"enableHTTPS": True}):
            assert run(_call(ExtenderEndpoint(configured(server.url, **settings)[0]))) == b"{}"
