"""The status of an ElasticQuota: what running pods request, counted as the scheduler counts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.kube.model import ElasticQuota, Pod, PodStatus
from secondary_scheduler.operator.groups.status import is_reported, requests_of, resource_list, used_of


def container(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}}


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}, Pod)


def quota(used: dict[str, str] | None = None, **spec: Any) -> ElasticQuota:
    data = {"metadata": {"name": "q", "namespace": "a"}, "spec": spec, "status": {"used": used or {}}}
    return msgspec.convert(data, ElasticQuota)


def test_containers_add_up_and_the_overhead_counts() -> None:
    counted = requests_of(pod(container(cpu="1"), container(cpu="500m", memory="1Gi"), overhead={"cpu": "250m"}))
    assert counted == {"cpu": 1750, "memory": 1 << 30}


def test_an_init_container_counts_where_it_asks_for_more_and_a_sidecar_beside_the_others() -> None:
    init, sidecar = container(cpu="3"), {**container(cpu="2"), "restartPolicy": "Always"}
    assert requests_of(pod(container(cpu="1"), initContainers=[init])) == {"cpu": 3000}
    assert requests_of(pod(container(cpu="1"), initContainers=[sidecar])) == {"cpu": 3000}
    assert requests_of(pod(container(cpu="1"), initContainers=[sidecar, init])) == {"cpu": 5000}


def test_a_resize_counts_as_soon_as_it_is_granted() -> None:
    granted = {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}
    status = msgspec.convert({"containerStatuses": [{"name": "c", "resources": granted}]}, PodStatus)
    resized = msgspec.structs.replace(pod(container(cpu="1")), status=status)
    assert requests_of(resized) == {"cpu": 3000}


def test_resources_that_the_quota_names_are_there_even_if_nobody_uses_them() -> None:
    named = quota(min={"cpu": "1"}, max={"memory": "1Gi", "example.com/gpu": "2"})
    used = used_of(named, [{"cpu": 500}, {"cpu": 1000, "ephemeral-storage": 5}])
    assert used == {"cpu": 1500, "memory": 0, "example.com/gpu": 0, "ephemeral-storage": 5}
    assert resource_list(used) == {"cpu": "1500m", "ephemeral-storage": "5", "example.com/gpu": "0", "memory": "0"}


def test_amounts_are_written_as_users_write_them() -> None:
    used = {"cpu": 2000, "memory": 3 << 29, "hugepages-2Mi": 4 << 20, "example.com/gpu": 3000}
    assert resource_list(used) == {"cpu": "2", "memory": "1536Mi", "hugepages-2Mi": "4Mi", "example.com/gpu": "3k"}


@pytest.mark.parametrize(
    ("reported", "same"),
    [
        ({"cpu": "1500m", "memory": "1Gi"}, True),
        ({"cpu": "1.5", "memory": "1048576Ki"}, True),
        ({"cpu": "1501m", "memory": "1Gi"}, False),
        ({"cpu": "1500m"}, False),
        ({"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "0"}, False),
        ({"cpu": "much", "memory": "1Gi"}, False),
    ],
)
def test_a_status_that_says_the_same_in_other_words_is_left_alone(reported: dict[str, str], same: bool) -> None:
    assert is_reported(quota(reported), {"cpu": 1500, "memory": 1 << 30}) == same
