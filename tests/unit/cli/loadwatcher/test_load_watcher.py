"""`secondary-scheduler load-watcher`: what it serves, to whom, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from devcluster.pki import CertificateAuthority
from scheduler.framework import LoadReading, NodeLoad
from scheduler.load import Known, LoadSettings, WatcherSource, parse_watcher, watcher_document
from secondary_scheduler.loadwatcher import Access, Listen, NodeNamedSource, WatcherService
from tests.support.rawclient import send_garbage
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.unit.scheduler.load.fakes import FakeService, send, service


def prometheus(fake: FakeService, loads: dict[str, str], *, age: float = 0.0) -> None:
    """Answer instant queries as Prometheus does: averages as given, deviations a tenth of them."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        query = parse_qs(urlsplit(handler.path).query)["query"][0]
        now = time.time()
        result: list[dict[str, Any]] = []
        for name, value in loads.items():
            shown = str(float(value) / 10) if "stddev" in query else value
            result.append({"metric": {"instance": name}, "value": [now, shown]})
            if "label_replace" in query:
                labels = {"instance": name, "secondary_scheduler_stat": "sample_time"}
                result.append({"metric": labels, "value": [now, str(now - age)]})
        send(handler, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode())

    fake.answer = answer


OPEN = Access()


@contextmanager
def serving(settings: LoadSettings, access: Access = OPEN, messages: list[str] | None = None) -> Iterator[str]:
    """The service in a thread of its own; yields its base URL."""
    services: list[WatcherService] = []
    loops: list[asyncio.AbstractEventLoop] = []
    listening = threading.Event()
    failure: list[BaseException] = []

    def say(text: str) -> None:
        if messages is not None:
            messages.append(text)
        if text.startswith("serving"):
            listening.set()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loops.append(loop)
        loop.add_signal_handler = lambda *_: None  # type: ignore[method-assign,assignment] # not the main thread
        services.append(WatcherService(f"Prometheus:{settings.address}", settings, None, access))
        await services[0].run(Listen("127.0.0.1", 0), say)

    def body() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failure.append(error)
            listening.set()

    thread = threading.Thread(target=body)
    thread.start()
    assert listening.wait(PATIENCE_SECONDS)
    if failure:
        thread.join()
        raise failure[0]
    scheme = "https" if access.tls_cert_file else "http"
    try:
        yield f"{scheme}://127.0.0.1:{services[0].port}"
    finally:
        loops[0].call_soon_threadsafe(services[0].stop)
        thread.join(10)


def settled(url: str, **options: Any) -> requests.Response:
    """The answer once the first read is done."""

    def read() -> list[requests.Response]:
        answer = requests.get(url, timeout=5, **options)
        return [answer] if answer.status_code != 500 else []  # by itself, an answer with an error's code is false

    return eventually(read, "a first read", interval=0.02)[0]


@pytest.fixture
def fake() -> Iterator[FakeService]:
    with service() as running:
        yield running


def settings_of(fake: FakeService, **more: Any) -> LoadSettings:
    return LoadSettings(address=fake.url, timeout_seconds=1, refresh_seconds=0.2, **more)


def test_the_answer_is_in_load_watchers_format_and_reads_back_unchanged(fake: FakeService) -> None:
    prometheus(fake, {"n1": "0.5", "n2": "0.25"})
    with serving(settings_of(fake)) as url:
        answer = settled(f"{url}/watcher")
        assert answer.headers["Content-Type"].startswith("application/json")
        document = answer.json()
        assert set(document) == {"timestamp", "window", "source", "data"}
        assert document["source"] == "Prometheus"
        assert document["window"]["duration"] == "15m"
        assert document["window"]["end"] - document["window"]["start"] == 900
        assert all(isinstance(value, int) for value in (document["timestamp"], document["window"]["end"]))
        node = document["data"]["NodeMetricsMap"]["n1"]
        assert (node["tags"], node["metadata"]) == ({}, {"dataCenter": ""})
        assert node["metrics"][0] == {"name": "", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 50}
        reading = WatcherSource(LoadSettings(address=url)).read()
    n2 = reading.loads["n2"]
    assert (n2.cpu_average, n2.cpu_stddev, n2.memory_average, n2.memory_stddev) == (25, 2.5, 25, 2.5)


def test_a_host_can_be_queried_and_an_unknown_one_is_404(fake: FakeService) -> None:
    prometheus(fake, {"n1": "0.5", "n2": "0.25"})
    with serving(settings_of(fake)) as url:
        settled(f"{url}/watcher")
        assert list(requests.get(f"{url}/watcher?host=n2", timeout=5).json()["data"]["NodeMetricsMap"]) == ["n2"]
        unknown = requests.get(f"{url}/watcher?host=n3", timeout=5)
        assert (unknown.status_code, unknown.content) == (404, b"")
        assert requests.post(f"{url}//watcher", timeout=5).status_code == 200, "as Go's mux, for addresses with a slash"


def test_nan_from_a_source_does_not_make_invalid_json(fake: FakeService) -> None:
    prometheus(fake, {"good": "0.5", "bad": "NaN", "odd": "+Inf"})
    with serving(settings_of(fake)) as url:
        text = settled(f"{url}/watcher").text
    assert "NaN" not in text
    assert "Infinity" not in text
    assert list(json.loads(text)["data"]["NodeMetricsMap"]) == ["good"]


def test_requests_that_cannot_be_read_are_counted_and_no_traceback(
    fake: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    prometheus(fake, {"n1": "0.5"})
    messages: list[str] = []
    with serving(settings_of(fake), messages=messages) as url:
        answers = send_garbage(urlsplit(url).port or 0, 30, tls=False)
        assert set(answers) == {b"HTTP/1.0 400 Bad Request"}
    first, last = (line for line in messages if line.startswith("malformed requests: "))
    assert first.startswith("malformed requests: 1, the last by 127.0.0.1: ")
    assert last.startswith("malformed requests: 29, ")
    assert not [record for record in caplog.records if record.name.startswith("aiohttp")], "with a traceback each"


@pytest.mark.real_time
def test_without_data_it_answers_500_and_is_unhealthy(fake: FakeService) -> None:
    fake.answer = lambda handler: send(handler, b"", 503)
    messages: list[str] = []
    with serving(settings_of(fake), messages=messages) as url:
        eventually(lambda: fake.paths, "the source is asked")
        assert requests.get(f"{url}/watcher", timeout=5).status_code == 500
        assert requests.get(f"{url}/watcher/health", timeout=5).status_code == 503
        assert requests.get(f"{url}/livez", timeout=5).status_code == 200
        assert requests.get(f"{url}/readyz", timeout=5).status_code == 503
        prometheus(fake, {"n1": "0.5"})
        settled(f"{url}/watcher")
        eventually(lambda: requests.get(f"{url}/watcher/health", timeout=5).status_code == 200, "it is healthy")
        fake.answer = lambda handler: send(handler, b"", 503)
        eventually(lambda: requests.get(f"{url}/watcher/health", timeout=5).status_code == 503, "it is not any more")
        assert requests.get(f"{url}/watcher", timeout=5).status_code == 200, "what there is, until it is too old"
        assert requests.get(f"{url}/readyz", timeout=5).status_code == 200, "clients shall see that nothing is fresh"
    assert sum("not fresh" in message for message in messages) == 1


def test_load_that_is_too_old_is_not_served(fake: FakeService) -> None:
    prometheus(fake, {"n1": "0.5"}, age=400)
    with serving(settings_of(fake)) as url:
        document = settled(f"{url}/watcher").json()
        assert document["data"]["NodeMetricsMap"] == {}
        assert requests.get(f"{url}/watcher/health", timeout=5).status_code == 503
        assert requests.get(f"{url}/readyz", timeout=5).status_code == 503


def test_a_token_is_required_and_may_be_rotated(fake: FakeService, tmp_path: Path) -> None:
    prometheus(fake, {"n1": "0.5"})
    token = tmp_path / "token"
    token.write_text("first\n")

    def status(authorization: str | None) -> int:
        headers = {"Authorization": authorization} if authorization else {}
        return requests.get(f"{url}/watcher", headers=headers, timeout=5).status_code

    with serving(settings_of(fake), Access(token_file=token)) as url:
        settled(f"{url}/watcher", headers={"Authorization": "Bearer first"})
        assert [status(header) for header in ("Bearer first", None, "Basic Zmlyc3Q=", "Bearer wrong", "Bearer ")] == [
            200,
            401,
            401,
            401,
            401,
        ]
        assert requests.get(f"{url}/watcher/health", timeout=5).status_code == 401
        token.write_text("second")
        assert (status("Bearer first"), status("Bearer second")) == (401, 200)
        token.write_text("")
        assert status("Bearer ") == 401


def test_over_tls_a_client_certificate_can_be_required(fake: FakeService, tmp_path: Path) -> None:
    prometheus(fake, {"n1": "0.5"})
    authority = CertificateAuthority("ca")
    server, client = authority.server("watcher", [], ["127.0.0.1"]), authority.client("reader")
    files = {name: tmp_path / name for name in ("ca", "crt", "key", "client")}
    for name, content in zip(
        files,
        (authority.pair.certificate, server.certificate, server.key, client.certificate + client.key),
        strict=True,
    ):
        files[name].write_bytes(content)
    access = Access(client_ca_file=files["ca"], tls_cert_file=files["crt"], tls_private_key_file=files["key"])
    with serving(settings_of(fake), access) as url:
        options = {"verify": str(files["ca"]), "cert": str(files["client"])}
        assert settled(f"{url}/watcher", **options).status_code == 200
        with pytest.raises((requests.exceptions.SSLError, requests.exceptions.ConnectionError)):
            requests.get(f"{url}/watcher", verify=str(files["ca"]), timeout=5)
        with pytest.raises(requests.exceptions.ConnectionError):
            requests.get(url.replace("https", "http") + "/watcher", timeout=5)


class OneReading:
    """A source with one reading."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        return "source"

    def read(self) -> LoadReading:
        return LoadReading({name: NodeLoad(cpu_average=1) for name in self.names}, 1)

    def close(self) -> None:
        pass


class Nodes:
    """An API server with a list of nodes, in pages of one."""

    def __init__(self, **addresses: str) -> None:
        self.items = [
            {"metadata": {"name": name}, "status": {"addresses": [{"type": "InternalIP", "address": address}]}}
            for name, address in addresses.items()
        ]

    def get(self, path: str, params: Any = None) -> bytes:
        assert path == "/api/v1/nodes"
        index = int((params or {}).get("continue", 0))
        following = str(index + 1) if index + 1 < len(self.items) else ""
        return json.dumps({"items": self.items[index : index + 1], "metadata": {"continue": following}}).encode()

    def close(self) -> None:
        pass


def test_addresses_become_names_of_nodes_and_other_series_are_reported_once() -> None:
    messages: list[str] = []
    nodes: Any = Nodes(n1="10.0.0.1", n2="10.0.0.2")
    counts: list[Known] = []

    def source_of(known: Known) -> OneReading:
        counts.append(known)
        return OneReading("10.0.0.1:9100", "n2", "10.9.9.9:9100")

    source = NodeNamedSource(source_of, nodes, messages.append)
    for _ in range(2):
        assert set(source.read().loads) == {"n1", "n2"}
    assert [known() for known in counts] == [2], "so many nodes an answer may be about"
    assert messages == ["1 series are left out: no node has that name or address, such as 10.9.9.9:9100"]


def test_figures_of_a_metrics_server_are_marked_as_upstream_marks_them() -> None:
    document = watcher_document(
        {"n1": NodeLoad(cpu_average=10, memory_average=20)},
        source="KubernetesMetricsServer",
        window="15m",
        window_seconds=900,
        end=1000.7,
        timestamp=1000.7,
        latest=True,
    )
    metrics = document["data"]["NodeMetricsMap"]["n1"]["metrics"]
    assert [(metric["type"], metric["operator"], metric["rollup"]) for metric in metrics] == [
        ("CPU", "Latest", ""),
        ("Memory", "Latest", ""),
    ]
    assert parse_watcher(json.dumps(document).encode(), "w").loads["n1"].cpu_average == 10


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "secondary_scheduler.cli", "load-watcher", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


PROMETHEUS = ("--provider", "Prometheus", "--address", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--listen", "0.0.0.0:2020"), "--auth-token-file"),
        (("--listen", ":2020"), "--auth-token-file"),
        (("--listen", "0.0.0.0:2020", "--auth-token-file", "/t"), "unencrypted"),
        (("--listen", "2020"), "an address and a port"),
        (("--serve-unauthenticated", "--token-review"), "say the opposite"),
        (("--tls-cert-file", "/c"), "give both or neither"),
        (("--client-ca-file", "/c"), "needs --tls-cert-file"),
        (("--window", "quarter"), "PromQL duration"),
        (("--address", "prometheus:9090"), "not a URL"),
    ],
)
def test_unsafe_or_contradictory_options_are_refused_before_it_listens(arguments: tuple[str, ...], reason: str) -> None:
    done = command(*PROMETHEUS, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_metrics_server_is_not_asked_without_a_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    done = command()
    assert done.returncode == 1
    assert "--kubeconfig" in done.stderr


def test_a_configuration_without_a_source_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    done = command("--config", str(config))
    assert done.returncode == 4
    assert "it names none" in done.stderr
