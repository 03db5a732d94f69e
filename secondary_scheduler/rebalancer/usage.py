"""What pods use: by the series of the load source, and by PodMetrics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import structlog
from msgspec import Struct

from scheduler.kube.client import KubeClient, KubeError, ResponseTooLarge, api_path
from scheduler.load import (
    MAX_BYTES,
    AnswerDecoder,
    AnswerError,
    LoadAnswer,
    LoadError,
    PodSeriesSource,
    PodUseAnswer,
    max_bytes,
)
from secondary_scheduler.rebalancer.cluster import WatchedCluster
from secondary_scheduler.rebalancing import PodMetrics, PodUsage, usage_of

_CADVISOR: Final = "cAdvisor"
_METRICS: Final = "metrics.k8s.io/v1beta1"
_PODS_A_LIST: Final = MAX_BYTES // 2048
"""Of 2 KiB each. More are listed by namespace."""
_MAX_TEXT: Final = 300
log = structlog.get_logger(component="rebalancer")


class _UsageList(Struct):
    items: list[Any] | None = None


_PODS: AnswerDecoder[_UsageList, PodMetrics] = AnswerDecoder(_UsageList, "items", sample=PodMetrics, seam=b"]},{")


class UsageReader:
    """Reads what pods use.

    Args:
        client: may list PodMetrics. Its `max_bytes` are at most those of an answer.
        cluster: says how many pods there are.
        series: of the load source; None where that has none.
    """

    def __init__(self, client: KubeClient, cluster: WatchedCluster, series: PodSeriesSource | None) -> None:
        self._client = client
        self._cluster = cluster
        self._series = series
        self._problems: dict[str, str] = {}

    async def read(self) -> Mapping[str, PodUsage]:
        """Return what pods used, by cAdvisor's series where there are any: they are averages, as the nodes' loads."""
        metrics, series = await asyncio.gather(self._pod_metrics(), self._pod_series())
        return {**metrics, **series}

    def say_once(self, event: str, problem: str, **details: str) -> None:
        """Log a problem when it is new or another than before; "" is none. Details may be others each time."""
        if problem and problem != self._problems.get(event):
            log.info(event, reason=problem, **details)
        self._problems[event] = problem

    async def _pod_series(self) -> Mapping[str, PodUsage]:
        if self._series is None:
            return {}
        problem, uses = "", PodUseAnswer({})
        try:
            uses = await asyncio.to_thread(self._series.read)
        except LoadError as error:
            problem = str(error)[:_MAX_TEXT]
        self.say_once("no series of what pods use: PodMetrics are asked instead", problem)
        self._say_left_out("series", uses.left_out)
        return {key: PodUsage(use.cpu, use.memory, use.at, _CADVISOR) for key, use in uses.by_pod.items()}

    async def _pod_metrics(self) -> Mapping[str, PodUsage]:
        """Return what PodMetrics say; nothing where there is no metrics server."""
        problem, left_out = "", ""
        usage: dict[str, PodUsage] = {}
        for namespace, pods in self._lists():
            try:
                body = await self._client.get(api_path(_METRICS, "pods", namespace=namespace))
                # In a thread: probes are to be answered meanwhile.
                used, why = await asyncio.to_thread(_usages, body, max_bytes(pods))
            except (ResponseTooLarge, AnswerError) as error:
                problem = problem or str(error)[:_MAX_TEXT]
            except KubeError as error:
                # Other namespaces would be refused as well, and each of them could take the deadline of a request.
                problem = str(error)[:_MAX_TEXT]
                break
            else:
                usage.update(used)
                left_out = left_out or why
        self.say_once("no PodMetrics: without a series, what a pod uses is taken to be what it requests", problem)
        self._say_left_out("PodMetrics", left_out)
        return usage

    def _lists(self) -> list[tuple[str | None, int]]:
        """Return the namespaces to be listed one by one, None for all of them at once, and how many pods each has."""
        pods = self._cluster.pod_count()
        return [(None, pods)] if pods <= _PODS_A_LIST else list(self._cluster.pods_by_namespace().items())

    def _say_left_out(self, source: str, why: str) -> None:
        problem = "not of their form" if why else ""
        self.say_once(f"uses of pods are left out of {source}", problem, why=why[:_MAX_TEXT])


def _usages(body: bytes, most: int) -> tuple[dict[str, PodUsage], str]:
    answer: LoadAnswer[_UsageList, PodMetrics] = _PODS.decode(body, most)
    rejected, reason = answer.rejected, answer.reason
    usage: dict[str, PodUsage] = {}
    for _, metrics in answer.samples:
        try:
            usage[metrics.metadata.key] = usage_of(metrics)
        except (ValueError, OverflowError) as error:
            rejected += 1
            reason = reason or str(error)
    return usage, f"{rejected}, the first as {reason}" if rejected else ""
