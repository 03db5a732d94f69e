"""What the metrics of the queue are called, which depends on the version."""

from __future__ import annotations

import pytest

from scheduler.observe import Metrics


def shown(metrics: Metrics, name: str) -> list[dict[str, str]]:
    """Labels of the samples of a metric."""
    return [sample.labels for family in metrics.registry.collect() for sample in family.samples if sample.name == name]


@pytest.mark.parametrize("label", ["type", "entity"])
def test_what_is_queued_stands_in_the_label_of_the_version(label: str) -> None:
    metrics = Metrics(label)
    metrics.show_entities({("active", "pod"): 1})
    metrics.incoming_pods.labels("active", "UnscheduledPodAdd").inc()
    assert shown(metrics, "scheduler_queued_entities") == [{"queue": "active", label: "pod"}]
    assert shown(metrics, "scheduler_queue_incoming_entities_total") == [
        {"queue": "active", "event": "UnscheduledPodAdd", label: "pod"}
    ]


@pytest.mark.parametrize(
    ("label", "expected"), [("type", {}), ("entity", {"profile": "p", "entity": "podgroup"})], ids=["1.37", "1.38"]
)
def test_metrics_of_pod_groups_have_it_from_1_38_on(label: str, expected: dict[str, str]) -> None:
    metrics = Metrics(label)
    metrics.pod_group_tried("scheduled", "p", 0.1)
    metrics.pod_group_decided("p", 0.1)
    attempts = {"result": "scheduled", "profile": "p"} | ({"entity": "podgroup"} if expected else {})
    assert shown(metrics, "scheduler_podgroup_schedule_attempts_total") == [attempts]
    assert shown(metrics, "scheduler_podgroup_scheduling_attempt_duration_seconds_count") == [attempts]
    assert shown(metrics, "scheduler_podgroup_scheduling_algorithm_duration_seconds_count") == [expected]
