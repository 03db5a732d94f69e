"""QOSSort: the order of the queue, and that it takes PrioritySort's place."""

import itertools

import pytest

from scheduler.config import ConfigurationError
from scheduler.framework import PodInfo, ProfileRunner
from tests.unit.scheduler.core.builders import container, pod, runner

ALONE = {"queueSort": {"enabled": [{"name": "QOSSort"}], "disabled": [{"name": "PrioritySort"}]}}
FULL = {"cpu": "100m", "memory": "50Mi"}


@pytest.fixture(scope="module")
def scheduler() -> ProfileRunner:
    return runner(ALONE)


def guaranteed(name: str, **fields: object) -> PodInfo:
    return pod(name, container("100m", "50Mi", limits=FULL), **fields)


def burstable(name: str, **fields: object) -> PodInfo:
    return pod(name, container("100m"), **fields)


def best_effort(name: str, **fields: object) -> PodInfo:
    return pod(name, **fields)


def test_it_is_priority_then_class_then_time(scheduler: ProfileRunner) -> None:
    expected = [
        (best_effort("high", priority=10), 9.0),
        (guaranteed("first", priority=5), 3.0),
        (guaranteed("second", priority=5), 4.0),
        (burstable("third", priority=5), 1.0),
        (burstable("fourth", priority=5), 2.0),
        (best_effort("fifth", priority=5), 0.0),
        (guaranteed("low", priority=-1), 0.0),
    ]
    for order in itertools.islice(itertools.permutations(expected), 0, None, 97):
        ordered = sorted(order, key=lambda queued: scheduler.queue_sort.sort_key(*queued))
        assert [info.name for info, _ in ordered] == [info.name for info, _ in expected]


def test_a_sidecar_without_limits_makes_a_pod_burstable(scheduler: ProfileRunner) -> None:
    sidecar = {"name": "s", "restartPolicy": "Always"}
    mixed = pod("mixed", container("100m", "50Mi", limits=FULL), initContainers=[sidecar])
    key = scheduler.queue_sort.sort_key
    assert key(guaranteed("g"), 1.0) < key(mixed, 0.0) < key(best_effort("b"), 0.0)


def test_two_queue_sorts_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="only one queue sort plugin required"):
        runner({"queueSort": {"enabled": [{"name": "QOSSort"}]}})
