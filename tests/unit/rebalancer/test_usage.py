"""What pods use: by series, by PodMetrics, and what is left out of both."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.kube.client.errors import api_error
from scheduler.load import LoadError, PodUse, PodUseAnswer
from secondary_scheduler.rebalancer.usage import UsageReader
from tests.support.rebalancing import metrics

ALL = "/apis/metrics.k8s.io/v1beta1/pods"


class FakeClient:
    """Answers each path with what it was given."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    async def get(self, path: str) -> bytes:
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


class FakeCluster:
    """So many pods by namespace."""

    def __init__(self, **namespaces: int) -> None:
        self.namespaces = namespaces

    def pod_count(self) -> int:
        return sum(self.namespaces.values())

    def pods_by_namespace(self) -> dict[str, int]:
        return self.namespaces


class FakeSeries:
    """Series of pods, or a source that does not answer."""

    def __init__(self, uses: PodUseAnswer | None) -> None:
        self.uses = uses

    def read(self) -> PodUseAnswer:
        if self.uses is None:
            raise LoadError("no answer within 10 s")
        return self.uses


def reader(answers: dict[str, Any], series: Any = None, **namespaces: int) -> UsageReader:
    client: Any = FakeClient(answers)
    cluster: Any = FakeCluster(**namespaces)
    return UsageReader(client, cluster, series)


@pytest.mark.parametrize(
    ("uses", "sources"),
    [
        (
            PodUseAnswer({"default/web": PodUse(100.0, 200.0, 990.0)}),
            {"default/web": ("cAdvisor", 100.0), "default/db": ("PodMetrics", 700.0)},
        ),
        (None, {"default/web": ("PodMetrics", 500.0), "default/db": ("PodMetrics", 700.0)}),
    ],
)
async def test_what_pods_use_is_by_their_series_where_there_are_any(
    uses: PodUseAnswer | None, sources: dict[str, tuple[str, float]]
) -> None:
    items = [metrics("web", cpu="500m"), metrics("db", cpu="700m")]
    usage = await reader({ALL: {"items": items}}, FakeSeries(uses)).read()
    assert {key: (each.source, each.cpu) for key, each in usage.items()} == sources


async def test_in_a_large_cluster_each_namespace_is_listed_by_itself() -> None:
    def listed(name: str, namespace: str) -> dict[str, Any]:
        item = metrics(name, cpu="1")
        item["metadata"]["namespace"] = namespace
        return {"items": [item]}

    paths = {f"/apis/metrics.k8s.io/v1beta1/namespaces/{each}/pods": listed("web", each) for each in ("a", "b")}
    assert set(await reader(paths, a=5000, b=5000).read()) == {"a/web", "b/web"}
    answers: dict[str, Any] = {**paths, next(iter(paths)): b'{"items": 5}'}
    assert set(await reader(answers, a=5000, b=5000).read()) == {"b/web"}, (
        "an answer that cannot be used costs its namespace"
    )


@pytest.mark.parametrize(
    "wrong",
    [7, {"metadata": {"name": 5}}, {"timestamp": []}, metrics("odd", cpu="1_0"), metrics("odd", cpu="1", at="x")],
)
async def test_a_wrong_item_costs_itself_and_is_said_once(wrong: Any) -> None:
    usage = reader({ALL: {"items": [metrics("web", cpu="500m"), wrong]}})
    with capture_logs() as logs:
        for _ in range(2):
            assert set(await usage.read()) == {"default/web"}
    assert [entry["event"] for entry in logs] == ["uses of pods are left out of PodMetrics"]
    assert logs[0]["why"].startswith("1, the first as ")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"<html>", "not JSON"),
        ({"items": 5}, "Expected `array | null`"),
        (b'{"items":[' + b"7," * 200_000 + b"7]}", "larger than 266240 bytes"),
        (b'{"items":[' + b"7," * 100_000 + b"7]}", "holds more than 6176 values"),
        (api_error("GET", ALL, 503, b""), "503"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_none_and_is_said_once(answer: Any, reason: str) -> None:
    usage = reader({ALL: answer}, default=2)
    with capture_logs() as logs:
        for _ in range(2):
            assert await usage.read() == {}
    assert len(logs) == 1
    assert reason in logs[0]["reason"]
