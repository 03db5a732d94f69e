"""A source that sends its readers elsewhere: to a file, another host or another path. Nobody goes there.

With real HTTP servers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from scheduler.kube.client import ClientConfig
from scheduler.kube.client.sync import SyncConnection
from scheduler.load import (
    LoadError,
    LoadSettings,
    MetricsServerSource,
    PodSeriesSource,
    PrometheusSource,
    SignalFxSource,
    WatcherSource,
)
from tests.unit.scheduler.load.fakes import FakeService, service

TOKEN = "canary-of-the-token"
SECRET = "canary-of-the-file"


@pytest.fixture
def source() -> Iterator[FakeService]:
    with service() as fake:
        yield fake


@pytest.fixture
def elsewhere() -> Iterator[FakeService]:
    with service() as fake:
        yield fake


def settings(address: str, **more: Any) -> LoadSettings:
    return LoadSettings(address=address, token=TOKEN, timeout_seconds=5, **more)


def metrics_server(address: str) -> MetricsServerSource:
    return MetricsServerSource(SyncConnection(ClientConfig(server=address, token=TOKEN), timeout=5), {}.get)


READERS: dict[str, Callable[[str], Any]] = {
    "Prometheus": lambda address: PrometheusSource(settings(address)),
    "series of pods": lambda address: PodSeriesSource(settings(address)),
    "load-watcher": lambda address: WatcherSource(settings(address)),
    "SignalFx": lambda address: SignalFxSource(settings(address, credential_header="X-SF-Token"), 900.0),
    "metrics server": metrics_server,
}
LOCATIONS = {
    "a file": "file://{file}",
    "a file of a host": "file://127.0.0.1{file}",
    "another host": "http://localhost:{port}/api/v1/query?query=up",
    "another port": "http://127.0.0.1:{port}/watcher",
    "another host, by the same scheme": "//localhost:{port}/",
    "another host, with a user": "http://user:password@localhost:{port}/",
    "another path": "/elsewhere",
    "an address that is none": "http://[::1",
    "no address": "",
}


def moved(code: int, location: str, body: bytes = b"") -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.send_header("Location", location)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.mark.parametrize("code", [300, 301, 302, 303, 305, 307, 308])
@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("reader", READERS)
def test_nobody_goes_where_a_source_sends_its_readers(
    source: FakeService, elsewhere: FakeService, tmp_path: Path, reader: str, location: str, code: int
) -> None:
    file = tmp_path / "secret.json"
    file.write_text(SECRET)
    port = elsewhere.url.rpartition(":")[2]
    source.answer = moved(code, LOCATIONS[location].format(file=file, port=port))
    with pytest.raises(LoadError, match=r"redirect") as refused:
        READERS[reader](source.url).read()
    assert str(code) in str(refused.value)
    assert (len(source.paths), elsewhere.paths) == (1, [])
    assert TOKEN in str(source.headers[0]), "the source itself gets the token, or the test shows nothing"
    assert TOKEN not in str(refused.value)
    assert SECRET not in str(refused.value)


def test_the_body_of_a_redirect_is_not_read(source: FakeService, elsewhere: FakeService) -> None:
    sent = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", elsewhere.url)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while len(sent) < 500:
                handler.wfile.write(b"x" * 1_000_000)
                sent.append(1)

    source.answer = answer
    with pytest.raises(LoadError, match="redirected"):
        PrometheusSource(settings(source.url)).read()
    assert len(sent) < 100


def test_cookies_of_a_source_are_not_kept(source: FakeService) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Set-Cookie", f"name{len(source.paths)}=value; Path=/")
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    source.answer = answer
    reader = WatcherSource(settings(source.url))
    for _ in range(3):
        reader.read()
    assert len(source.headers) == 3
    assert not any("Cookie" in headers for headers in source.headers)


def test_an_answer_that_only_names_another_address_is_read_as_an_answer(
    source: FakeService, elsewhere: FakeService
) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        for name in ("Location", "Refresh", "Content-Location"):
            handler.send_header(name, f"0; url={elsewhere.url}" if name == "Refresh" else elsewhere.url)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    source.answer = answer
    assert WatcherSource(settings(source.url)).read().loads == {}
    assert elsewhere.paths == []
