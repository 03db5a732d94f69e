"""What a load-watcher serves."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from scheduler.load import LoadSettings, WatcherSource
from secondary_scheduler.loadwatcher.app import Listen, WatcherService
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


@contextmanager
def serving(settings: LoadSettings, messages: list[str] | None = None) -> Iterator[str]:
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
        services.append(WatcherService(f"Prometheus:{settings.address}", settings))
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
    try:
        yield f"http://127.0.0.1:{services[0].port}"
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
