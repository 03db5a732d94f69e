"""The HTTPS endpoints over a real socket; a fake stands in for the API server's reviews."""

from __future__ import annotations

import contextlib
import errno
import gc
import gzip
import json
import socket
import ssl
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
import requests
from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from devcluster import pki
from scheduler import __version__
from scheduler.answers import Document, LoadEstimate, NodeLoadRow, SourceLoads
from scheduler.observe import Authorizer
from scheduler.observe.answers import EndpointSources, PodsQuestion, Question, QueueQuestion, UnansweredError
from scheduler.observe.certificate import serving_context, use_self_signed
from scheduler.observe.health import Check, HealthChecks
from scheduler.observe.refresh import GaugeRefresh
from scheduler.observe.server import Server
from tests.support.rawclient import send_garbage
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.scheduler.observe.ports import free_port, self_signed

RIGHTS = {
    "tenant": (
        {"namespace": "shop", "verb": "get", "resource": "pods"},
        {"namespace": "shop", "verb": "list", "resource": "pods"},
    ),
    "viewer": ({"verb": "get", "resource": "nodes"},),
    "operator": ({"verb": "list", "resource": "pods"}, {"verb": "get", "resource": "nodes", "name": "n1"}),
}


class FakeReviews:
    """Knows five tokens: `good` may read all paths, `curious` nothing, `tenant` the pods of the namespace shop, and
    `operator` the pods of all namespaces and the node n1, `viewer` all nodes."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.specs: list[dict[str, Any]] = []

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        self.calls.append(path)
        if path.endswith("tokenreviews"):
            token = body["spec"]["token"]
            if token == "broken":
                raise OSError("API server is away")
            status: dict[str, Any] = {
                "authenticated": token in ("good", "curious", "tenant", "operator", "viewer"),
                "user": {"username": token},
            }
        else:
            self.specs.append(body["spec"])
            spec = body["spec"]
            if "resourceAttributes" in spec:
                status = {"allowed": spec["resourceAttributes"] in RIGHTS.get(spec["user"], ())}
            else:
                status = {"allowed": spec["user"] == "good"}
        return json.dumps({"status": status}).encode()

    async def close(self) -> None:
        pass


class NoGauges(GaugeRefresh):
    """Nothing to bring up to date."""

    def __init__(self) -> None:
        pass

    async def wait(self) -> None:
        pass

    async def ask(self, question: Callable[[], Any]) -> Any:
        return question()


def unstarted(
    port: int,
    make_tls: Callable[[], ssl.SSLContext] = self_signed,
    address: str = "127.0.0.1",
    on_serving: Callable[[], None] = lambda: None,
) -> Server:
    ping: dict[str, Check] = {"ping": lambda: None}
    answers = EndpointSources(
        checks=HealthChecks(ping, ping, ping),
        registry=CollectorRegistry(),
        gauges=NoGauges(),
        make_review_client=FakeReviews,
        configz=dict,
        always_allow=("/livez",),
    )
    return Server(address=address, port=port, make_tls=make_tls, answers=answers, on_serving=on_serving)


class Echo(Document, frozen=True, kw_only=True):
    """Says what was asked."""

    question: Any


def inspect(question: Question) -> Document:
    match question:
        case PodsQuestion(pod="gone"):
            raise UnansweredError(503, "this replica does not lead; another does")
        case QueueQuestion(limit=500):
            raise UnansweredError(429, "too much was asked lately")
        case PodsQuestion(node=None):
            return Echo(question=[question.namespace, question.pod, question.limit])
    return Echo(question={type(question).__name__: list(msgspec.structs.astuple(question))})


@pytest.fixture
def ready() -> list[str | None]:
    return [None]


@pytest.fixture
def reviews() -> FakeReviews:
    return FakeReviews()


AUTHORITY = pki.CertificateAuthority("clients")
STRANGERS = pki.CertificateAuthority("clients")


def own_tls() -> ssl.SSLContext:
    authorities = AUTHORITY.pair.certificate.decode()
    context = serving_context(None, None, minimum="VersionTLS12", client_authorities=authorities)
    use_self_signed(context, "127.0.0.1")
    return context


LOADS = [
    SourceLoads("p", True, 12.3, (NodeLoadRow("n1", 35.5, None, LoadEstimate(40.0, None), 12.3, True),)),
    SourceLoads("never", False, None, ()),
]


@pytest.fixture
def url(ready: list[str | None], reviews: FakeReviews) -> Iterator[str]:
    port = free_port()
    registry = CollectorRegistry()
    Counter("answers_total", "For the test", registry=registry).inc(42)
    answers = EndpointSources(
        checks=HealthChecks({"ping": lambda: None}, {"ping": lambda: None}, {"sync": lambda: ready[0]}),
        registry=registry,
        gauges=NoGauges(),
        make_review_client=lambda: reviews,
        configz=lambda: {"componentconfig": {"parallelism": 16}},
        always_allow=("/healthz", "/readyz", "/readyz/*", "/livez"),
        behaves_as="1.36",
        flags={"v": "4", "config": "c.yaml"},
        profiling=True,
        node_loads=lambda: LOADS,
        inspect=inspect,
    )
    serving = Event()
    server = Server(address="127.0.0.1", port=port, make_tls=own_tls, answers=answers, on_serving=serving.set)
    server.bind()
    server.start()
    assert serving.wait(timeout=10)
    yield f"https://127.0.0.1:{port}"
    server.stop()


def get(url: str, token: str | None = None, **more: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return requests.get(url, headers=headers | more.pop("headers", {}), verify=False, timeout=5, **more)


pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")


def test_probes_need_no_token_and_follow_the_checks(url: str, ready: list[str | None]) -> None:
    assert get(f"{url}/livez").text == "ok"
    assert get(f"{url}/readyz").status_code == 200
    ready[0] = "caches are not filled"
    assert get(f"{url}/readyz").status_code == 500
    assert get(f"{url}/readyz?exclude=sync").status_code == 200
    assert get(f"{url}/readyz/sync").status_code == 500
    assert get(f"{url}/readyz/nonsense").status_code == 404


@pytest.mark.parametrize(
    ("token", "status"), [(None, 403), ("nobody", 401), ("curious", 403), ("good", 200), ("broken", 500)]
)
def test_metrics_are_shown_to_users_whom_the_api_server_allows(url: str, token: str | None, status: int) -> None:
    answer = get(f"{url}/metrics", token)
    assert answer.status_code == status
    assert ("answers_total 42.0" in answer.text) == (status == 200)
    if token:
        assert token not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        *("/metrics", "/metrics/slis", "/configz", "/statusz", "/flagz"),
        *("/debug/pprof/", "/debug/pprof/goroutine", "/debug/decisions"),
    ],
)
def test_what_is_no_probe_wants_a_user_who_may_read_it(url: str, path: str) -> None:
    assert get(f"{url}{path}").status_code == 403
    assert get(f"{url}{path}", "curious").status_code == 403
    assert get(f"{url}{path}", "good").status_code == 200


def test_a_tenant_sees_decisions_about_the_pods_that_it_may_read_and_no_others(url: str) -> None:
    decisions = f"{url}/debug/decisions"
    assert get(f"{decisions}/namespaces/shop", "tenant").json()["question"] == ["shop", None, 100]
    limited = get(f"{decisions}/namespaces/shop?pod=p&limit=7", "tenant")
    assert (limited.status_code, limited.json()["question"]) == (200, ["shop", "p", 7])
    for path in ("", "/namespaces/other", "/namespaces/shop/pods", "/namespaces/shop%2Fother"):
        assert get(f"{decisions}{path}", "tenant").status_code == 403


def test_who_may_read_the_path_of_all_decisions_sees_all_and_needs_rights_on_pods_for_one_namespace(url: str) -> None:
    decisions = f"{url}/debug/decisions"
    assert get(f"{decisions}?limit=5", "good").json()["question"] == [None, None, 5]
    assert get(f"{decisions}/namespaces/shop", "good").status_code == 403


def test_the_nodes_load_is_for_whoever_may_get_nodes_and_for_nobody_else(url: str) -> None:
    for token in ("good", "tenant", "curious"):
        assert get(f"{url}/debug/nodes", token).status_code == 403
    assert get(f"{url}/debug/nodes/n1", "viewer").status_code == 403
    answer = get(f"{url}/debug/nodes", "viewer")
    assert (answer.status_code, answer.headers["Content-Type"].partition(";")[0]) == (200, "application/json")
    load = {"name": "n1", "cpu": 35.5, "memory": None, "estimated": {"cpu": 40.0, "memory": None}}
    assert answer.json() == {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "NodeLoadReport",
        "schedulerVersion": __version__,
        "sources": [
            {"source": "p", "fresh": True, "ageSeconds": 12.3, "nodes": [{**load, "ageSeconds": 12.3, "fresh": True}]},
            {"source": "never", "fresh": False, "ageSeconds": None, "nodes": []},
        ],
    }


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/namespaces/shop?limit=0", 400, "limit: a number from 1 to 500"),
        ("/namespaces/shop?limit=many", 400, "limit: a number from 1 to 500"),
        ("/namespaces/shop?pod=", 400, "pod: a name"),
        ("/namespaces/shop?node=n1", 400, "node: only with a pod"),
        ("/namespaces/shop?pod=p&node=", 400, "node: a name"),
        ("/namespaces/shop?pod=gone", 503, "this replica does not lead; another does"),
    ],
)
def test_a_question_about_decisions_that_cannot_be_answered_says_why(
    url: str, path: str, status: int, reason: str
) -> None:
    answer = get(f"{url}/debug/decisions{path}", "tenant")
    assert answer.status_code == status
    assert answer.text.startswith(reason)


@pytest.mark.parametrize(
    ("token", "path", "question"),
    [
        ("tenant", "/decisions/namespaces/shop?pod=p&node=n7", {"PodsQuestion": ["shop", "p", 100, "n7"]}),
        ("tenant", "/queue/namespaces/shop?limit=3", {"QueueQuestion": ["shop", 3]}),
        ("operator", "/queue", {"QueueQuestion": [None, 20]}),
        ("operator", "/nodes/n1", {"NodeQuestion": ["n1"]}),
        ("operator", "/nodes/n1/decisions", {"ChosenQuestion": ["n1", 20]}),
    ],
)
def test_the_queue_and_nodes_are_shown_to_whoever_may_read_what_they_name(
    url: str, token: str, path: str, question: dict[str, Any]
) -> None:
    assert get(f"{url}/debug{path}", token).json()["question"] == question


@pytest.mark.parametrize(
    ("token", "path"),
    [
        ("tenant", "/queue"),
        ("tenant", "/queue/namespaces/other"),
        ("tenant", "/nodes/n1"),
        ("tenant", "/nodes/n1/decisions"),
        ("operator", "/nodes/n2"),
        ("operator", "/queue/namespaces/shop"),
        ("operator", "/decisions"),
        ("good", "/queue"),
        ("good", "/nodes/n1"),
        ("curious", "/nodes/n1"),
    ],
)
def test_nobody_else_sees_the_queue_or_a_node(url: str, token: str, path: str) -> None:
    assert get(f"{url}/debug{path}", token).status_code == 403


def test_whoever_asks_too_much_is_told_when_to_ask_again(url: str) -> None:
    refused = get(f"{url}/debug/queue?limit=500", "operator")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")


def test_a_path_that_anybody_may_read_opens_none_below_it(url: str) -> None:
    assert get(f"{url}/livez").status_code == 200
    assert get(f"{url}/livez/ping").status_code == 403


def certified(
    directory: Path, user: str, groups: Sequence[str] = (), signer: pki.CertificateAuthority = AUTHORITY
) -> Any:
    pair = signer.client(user, groups)
    certificate, key = directory / "client.crt", directory / "client.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return str(certificate), str(key)


@pytest.mark.parametrize(
    ("user", "groups", "status"),
    [("good", ["devs"], 200), ("curious", [], 403), ("anybody", ["system:masters"], 200)],
)
def test_a_client_certificate_names_its_user(
    url: str, tmp_path: Path, reviews: FakeReviews, user: str, groups: list[str], status: int
) -> None:
    assert get(f"{url}/metrics", cert=certified(tmp_path, user, groups)).status_code == status
    assert not any(path.endswith("tokenreviews") for path in reviews.calls)
    if "system:masters" not in groups:
        assert reviews.specs[-1]["user"] == user
        assert reviews.specs[-1]["groups"] == [*groups, "system:authenticated"]


def test_a_certificate_of_somebody_else_is_no_certificate(url: str, tmp_path: Path) -> None:
    with pytest.raises((requests.ConnectionError, requests.exceptions.SSLError)):
        get(f"{url}/metrics", cert=certified(tmp_path, "good", ["system:masters"], STRANGERS))
    assert get(f"{url}/metrics", "good").status_code == 200


def test_the_results_of_checks_are_counted_by_endpoint(url: str, ready: list[str | None]) -> None:
    get(f"{url}/livez")
    get(f"{url}/readyz")
    ready[0] = "caches are not filled"
    get(f"{url}/readyz")
    get(f"{url}/readyz?exclude=sync")
    get(f"{url}/readyz/sync")
    lines = get(f"{url}/metrics/slis", "good").text.splitlines()
    assert [line for line in lines if line.startswith("kubernetes_")] == [
        'kubernetes_healthcheck{name="ping",type="livez"} 1.0',
        'kubernetes_healthcheck{name="sync",type="readyz"} 0.0',
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1.0',
        'kubernetes_healthchecks_total{name="sync",status="success",type="readyz"} 1.0',
        'kubernetes_healthchecks_total{name="sync",status="error",type="readyz"} 1.0',
    ]
    assert any(line.startswith("process_start_time_seconds ") for line in lines)


def test_pages_about_flags_and_status_follow_the_accept_header(url: str) -> None:
    wanted = {"Accept": "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"}
    assert get(f"{url}/flagz", "good", headers=wanted).json()["flags"] == {"config": "c.yaml", "v": "4"}
    assert get(f"{url}/flagz", "good", headers={"Accept": "text/html"}).status_code == 406
    assert "\nEmulation version: 1.36\n" in get(f"{url}/statusz", "good").text


def test_profiles_are_served_one_at_a_time_and_others_are_named(url: str) -> None:
    answer = get(f"{url}/debug/pprof/profile?seconds=0.05", "good")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert gzip.decompress(answer.content)
    assert "thread serving " in get(f"{url}/debug/pprof/goroutine?debug=2", "good").text
    for seconds in ("61", "0", "nan", "x"):
        assert get(f"{url}/debug/pprof/profile?seconds={seconds}", "good").status_code == 400
    absent = get(f"{url}/debug/pprof/heap", "good")
    assert (absent.status_code, absent.text.partition(";")[0]) == (404, "heap: only Go has it")
    assert get(f"{url}/debug/pprof", "good", allow_redirects=False).headers["Location"] == "/debug/pprof/"


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


def in_the_middle_of_the_handshake(port: int) -> socket.socket:
    caller = connected(port)
    caller.sendall(b"\x16\x03\x01")
    return caller


def idle(port: int) -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connected(port))


def answered(port: int) -> socket.socket:
    caller = idle(port)
    caller.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert caller.recv(15) == b"HTTP/1.1 200 OK"
    return caller


@pytest.mark.parametrize("call", [connected, in_the_middle_of_the_handshake, idle, answered])
def test_a_caller_that_is_there_when_it_stops_leaves_no_socket_open(call: Callable[[int], socket.socket]) -> None:
    serving = Event()
    server = unstarted(free_port(), on_serving=serving.set)
    server.bind()
    server.start()
    assert serving.wait(timeout=PATIENCE_SECONDS)
    with call(server.port):
        # It is served after the callers before it: by then this one has been accepted.
        assert get(f"https://127.0.0.1:{server.port}/livez").text == "ok"
        server.stop()
        del server
        with warnings.catch_warnings(record=True) as unclosed:
            warnings.simplefilter("always")
            gc.collect()
    assert not [str(warning.message) for warning in unclosed]


def test_a_review_is_remembered(url: str, reviews: FakeReviews) -> None:
    get(f"{url}/configz", "good")
    calls = len(reviews.calls)
    assert get(f"{url}/configz", "good").json() == {"componentconfig": {"parallelism": 16}}
    assert len(reviews.calls) == calls == 2


def test_requests_that_cannot_be_read_are_one_counted_line_and_no_traceback(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    number = 30
    with capture_logs() as logs:
        answers = send_garbage(int(url.rpartition(":")[2]), number, tls=True)
    assert answers == [b"HTTP/1.0 400 Bad Request"] * number
    (line,) = logs
    assert (line["event"], line["count"], line["address"]) == ("malformed requests", 1, "127.0.0.1")
    assert "exc_info" not in line
    assert not caplog.records, "nothing of aiohttp's own, with a traceback each"


def test_a_taken_port_is_an_error_at_once(url: str) -> None:
    with pytest.raises(OSError, match=r"'127.0.0.1', \d+\): address already in use"):
        unstarted(int(url.rsplit(":", 1)[1])).bind()


def test_the_port_is_taken_at_once_and_refuses_connections_until_the_server_answers() -> None:
    server = unstarted(free_port())
    server.bind()
    with pytest.raises(requests.ConnectionError, match="refused"):
        get(f"https://127.0.0.1:{server.port}/livez")
    server.start()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(requests.ConnectionError):
            assert get(f"https://127.0.0.1:{server.port}/livez").text == "ok"
            break
        time.sleep(0.02)
    else:
        pytest.fail("the server does not answer")
    server.stop()


def test_without_a_certificate_the_server_ends_and_says_why() -> None:
    def fail() -> ssl.SSLContext:
        raise OSError("nowhere to put it")

    server = unstarted(free_port(), fail)
    server.bind()
    server.start()
    with pytest.raises(OSError, match="nowhere to put it"):
        server.ended.result(timeout=5)
    with socket.create_server(("127.0.0.1", server.port)):
        pass
    server.stop()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
def test_every_address_is_ipv4_and_ipv6(address: str) -> None:
    server = unstarted(free_port(), address=address)
    server.bind()
    assert [listener.family for listener in server._sockets] == [socket.AF_INET6]
    assert not server._sockets[0].getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    server.stop()


def test_every_address_is_ipv4_where_ipv6_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(socket.socket):
        def bind(self, address: Any) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", Refusing)
    server = unstarted(free_port(), address="0.0.0.0")
    server.bind()
    assert [listener.family for listener in server._sockets] == [socket.AF_INET]
    server.stop()


def test_who_comes_with_too_many_unknown_tokens_is_told_when_to_come_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_many(*_: object) -> int:
        return 429

    monkeypatch.setattr(Authorizer, "status", too_many)
    refused = get(f"{url}/metrics", "good")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert refused.text == "/metrics: too many unknown tokens; try again\n"
