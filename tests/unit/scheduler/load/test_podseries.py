"""The use of pods from a fake Prometheus."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest

from scheduler.load import LoadError, LoadSettings, PodSeriesSource, pod_series_source
from tests.unit.scheduler.load.fakes import FakeService, send, service


@pytest.fixture
def prometheus() -> Iterator[FakeService]:
    with service() as fake:
        yield fake


def query_in(path: str) -> str:
    return parse_qs(urlsplit(path).query)["query"][0]


def answer(values: dict[str, str]) -> bytes:
    result = [
        {"metric": dict(zip(("namespace", "pod"), key.split("/"), strict=False)), "value": [1000, value]}
        for key, value in values.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def serve(fake: FakeService, cpu: dict[str, str], memory: dict[str, str], sampled: dict[str, str]) -> None:
    def respond(handler: BaseHTTPRequestHandler) -> None:
        query = query_in(handler.path)
        send(handler, answer(cpu if "cpu" in query else sampled if "timestamp" in query else memory))

    fake.answer = respond


def test_a_pods_use_is_the_average_over_the_window_of_the_nodes_load(prometheus: FakeService) -> None:
    serve(prometheus, {"ns/a": "0.25"}, {"ns/a": "1048576"}, {"ns/a": "990"})
    source = PodSeriesSource(LoadSettings(prometheus.url, window="7m"))
    (use,) = source.read().by_pod.values()
    assert (use.cpu, use.memory, use.at) == (250.0, 1048576.0, 990.0)
    queries = list(map(query_in, prometheus.paths))
    assert sum("[7m]" in query for query in queries) == 2
    assert all('container!=""' in query and "by (namespace, pod)" in query for query in queries)


def test_in_a_large_cluster_no_answer_has_all_pods_and_together_they_have_each_once(prometheus: FakeService) -> None:
    names = [f"web-{suffix}" for suffix in ("x7k2q", "9", "0", "zz", "a")]

    def respond(handler: BaseHTTPRequestHandler) -> None:
        (selector,) = re.findall(r'pod=~"([^"]+)"', query_in(handler.path))
        send(handler, answer({f"ns/{name}": "1" for name in names if re.fullmatch(selector, name)}))

    prometheus.answer = respond
    source = PodSeriesSource(LoadSettings(prometheus.url), object_count=lambda: 100_000)
    assert set(source.read().by_pod) == {f"ns/{name}" for name in names}
    assert len(prometheus.paths) == 9
    wanted = "".join(re.findall(r"\.\*\[([a-z0-9]+)\]", "".join(map(query_in, prometheus.paths[:3]))))
    assert sorted(wanted) == sorted(set(wanted)), "no pod is asked for twice"


def test_what_is_not_sampled_any_more_is_left_out_and_half_of_a_measurement_counts(prometheus: FakeService) -> None:
    serve(prometheus, {"ns/gone": "1", "ns/a": "NaN"}, {"ns/a": "5", "only-a-namespace": "1"}, {"ns/a": "990"})
    uses = PodSeriesSource(LoadSettings(prometheus.url)).read()
    assert list(uses.by_pod) == ["ns/a"]
    assert math.isnan(uses.by_pod["ns/a"].cpu)
    assert uses.by_pod["ns/a"].memory == 5.0
    assert uses.left_out == "2 samples are left out, the first as nan is no use of a pod"


def test_a_refused_query_is_an_error(prometheus: FakeService) -> None:
    prometheus.answer = lambda handler: send(handler, b"no", status=403)
    with pytest.raises(LoadError, match="403"):
        PodSeriesSource(LoadSettings(prometheus.url)).read()


@pytest.mark.parametrize("key", ["watcher:http://w", "KubernetesMetricsServer", "SignalFx:x"])
def test_other_sources_have_no_series_of_pods(key: str) -> None:
    assert pod_series_source(key, LoadSettings("http://127.0.0.1:1")) is None
