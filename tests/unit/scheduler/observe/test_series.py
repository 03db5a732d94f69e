"""Counters and histograms of our own, beside those of the Prometheus client; and what is made of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.observe.clientmetrics import ClientMetrics
from scheduler.observe.metrics import Metrics
from scheduler.observe.processmetrics import NetworkCollector
from scheduler.observe.resources import PodResources, resource_metrics
from scheduler.observe.series import CounterFamily, Histograms, VisibleMetrics, exponential
from scheduler.observe.workqueue import WorkQueueMetrics

BUCKETS = exponential(0.001, 2, 5)


def lines(registry: CollectorRegistry) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("# HELP")]


def test_a_histogram_is_shown_as_that_of_the_prometheus_client() -> None:
    registry, reference = CollectorRegistry(), CollectorRegistry()
    ours = Histograms("name_seconds", "text", BUCKETS, ("a", "b"), registry)
    theirs = Histogram("name_seconds", "text", ("a", "b"), buckets=BUCKETS, registry=reference)
    chance = random.Random(1)
    for value in (*BUCKETS, 0.0, 99.0, *(chance.uniform(0, 0.02) for _ in range(100))):
        labels = chance.choice("xy"), 'hostile "\n\\'
        ours.labels(*labels).observe(value)
        theirs.labels(*labels).observe(value)
    Metrics()  # switches the Prometheus client's series of creation times off
    assert sorted(lines(registry)) == sorted(lines(reference))


def test_a_counter_with_labels_appears_at_its_first_use() -> None:
    registry = CollectorRegistry()
    counters = CounterFamily("pods_total", "text", ("queue",), registry)
    assert lines(registry) == ["# TYPE pods_total counter"]
    counters.labels("active").inc()
    counters.labels("active").inc(2)
    assert lines(registry) == ["# TYPE pods_total counter", 'pods_total{queue="active"} 3.0']
    with pytest.raises(ValueError, match="labels"):
        counters.labels("a", "b")


def test_buckets_are_gos_to_the_last_digit() -> None:
    assert exponential(10e-9, 10, 5)[3:] == (9.999999999999999e-06, 9.999999999999999e-05)


def test_disabled_metrics_are_not_shown() -> None:
    registry = CollectorRegistry()
    for name in ("kept_total", "hidden_total"):
        CounterFamily(name, "text", (), registry).inc()
    assert lines(VisibleMetrics(registry, frozenset({"hidden_total"}), {})) == [
        "# TYPE kept_total counter",
        "kept_total 1.0",
    ]


def test_requests_are_counted_under_the_host_and_watches_not_measured() -> None:
    registry = CollectorRegistry()
    observer = ClientMetrics(registry).observer("https://api.example:6443")
    observer.waited("POST", 0.5)
    observer.exchanged("POST", 201, 0.02, 300, 1000)
    observer.exchanged("GET", 0, 0.02, 0, 0)
    observer.exchanged("WATCH", 200, 0.02, 0, 0)
    shown = lines(registry)
    for code, method in (("201", "POST"), ("<error>", "GET"), ("200", "GET")):
        labels = f'code="{code}",host="api.example:6443",method="{method}"'
        assert f"rest_client_requests_total{{{labels}}} 1.0" in shown
    assert 'rest_client_request_duration_seconds_count{host="api.example:6443",verb="GET"} 1.0' in shown
    assert 'rest_client_response_size_bytes_sum{host="api.example:6443",verb="POST"} 1000.0' in shown
    assert 'rest_client_rate_limiter_duration_seconds_sum{host="api.example:6443",verb="POST"} 0.5' in shown


def test_a_work_queue_shows_waits_work_and_what_is_unfinished() -> None:
    registry, now = CollectorRegistry(), [100.0]
    waiting = [1, 2, 3]
    queue = WorkQueueMetrics(registry, clock=lambda: now[0]).queue("events", waiting.__len__)
    queue.added()
    first, second = queue.begin(0.25), queue.begin(0.5)
    now[0] += 2
    shown = lines(registry)
    assert 'workqueue_depth{name="events"} 3.0' in shown
    assert 'workqueue_queue_duration_seconds_sum{name="events"} 0.75' in shown
    assert 'workqueue_unfinished_work_seconds{name="events"} 4.0' in shown
    assert 'workqueue_longest_running_processor_seconds{name="events"} 2.0' in shown
    queue.end(first)
    queue.end(second)
    shown = lines(registry)
    assert 'workqueue_work_duration_seconds_sum{name="events"} 4.0' in shown
    assert 'workqueue_unfinished_work_seconds{name="events"} 0.0' in shown


def test_a_machine_without_proc_shows_no_network_bytes(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    NetworkCollector(registry, tmp_path / "absent")
    assert [family.name for family in registry.collect()] == ["process_virtual_memory_max_bytes"]


def test_resources_of_pods_are_valid_text_whatever_their_names_are() -> None:
    hostile = 'a"} 1\nkube_pod_resource_request{pod="forged\\'
    requests = {"cpu": 1500, "memory": 1 << 40, hostile: 2, "hugepages-2Mi": 5, "pods": 0}
    pods = [PodResources("ns", f"p{number}", "n", hostile, "7", requests, {"cpu": 2}) for number in range(1001)]
    text = "".join(resource_metrics(pods))
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families.keys() == {"kube_pod_resource_request", "kube_pod_resource_limit"}
    samples = [sample for sample in families["kube_pod_resource_request"].samples if sample.labels["pod"] == "p1000"]
    assert {sample.labels["resource"]: (sample.labels["unit"], sample.value) for sample in samples} == {
        "cpu": ("cores", 1.5),
        "memory": ("bytes", float(1 << 40)),
        hostile: ("", 2.0),
        "hugepages-2Mi": ("bytes", 5.0),
    }
    assert {sample.labels["scheduler"] for sample in samples} == {hostile}
    assert "".join(resource_metrics([])) == ""


def test_upstreams_metrics_say_how_stable_they_are() -> None:
    registry = CollectorRegistry(auto_describe=True)
    Counter("scheduler_attempts", "Attempts", registry=registry).inc()
    Counter("scheduler_others", "Others", registry=registry).inc()
    Counter("secondary_scheduler_own", "Own", registry=registry).inc()
    levels = {"scheduler_attempts_total": "STABLE"}
    for _ in range(2):
        shown = generate_latest(VisibleMetrics(registry, frozenset(), levels)).decode().splitlines()
        assert [line for line in shown if line.startswith("# HELP")] == [
            "# HELP scheduler_attempts_total [STABLE] Attempts",
            "# HELP scheduler_others_total [ALPHA] Others",
            "# HELP secondary_scheduler_own_total Own",
        ]
