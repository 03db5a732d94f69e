"""The quality-of-service class follows from requests and limits as the API server computes it."""

from typing import Any

import pytest

from scheduler.helpers.qos import qos_class
from tests.unit.scheduler.core.builders import api_pod, container

FULL = {"cpu": "1", "memory": "1Gi"}


def resources(requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    return container(requests=requests, limits=limits)


@pytest.mark.parametrize(
    ("containers", "spec", "expected"),
    [
        ([resources(FULL, FULL)], {}, "Guaranteed"),
        ([resources({"cpu": "1000m", "memory": "1Gi"}, FULL)], {}, "Guaranteed"),
        ([resources(FULL, FULL), resources({}, {})], {}, "Burstable"),
        ([resources(FULL, FULL)], {"initContainers": [resources({}, {})]}, "Burstable"),
        ([resources(FULL, FULL)], {"initContainers": [resources(FULL, FULL)]}, "Guaranteed"),
        ([resources({"cpu": "1"}, {"cpu": "1"})], {}, "Burstable"),
        ([resources({"cpu": "500m", "memory": "1Gi"}, FULL)], {}, "Burstable"),
        ([resources({"example.com/nic": "1"}, {"example.com/nic": "1"})], {}, "BestEffort"),
        ([resources({"cpu": "0"}, {})], {}, "BestEffort"),
        ([resources({}, {})], {"resources": {"requests": FULL, "limits": FULL}}, "Guaranteed"),
        ([resources(FULL, FULL)], {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}, "Burstable"),
        ([resources(FULL, FULL)], {"resources": {"requests": FULL}}, "Burstable"),
    ],
)
def test_class_follows_from_requests_and_limits(
    containers: list[dict[str, Any]], spec: dict[str, Any], expected: str
) -> None:
    assert qos_class(api_pod("p", *containers, **spec)) == expected
