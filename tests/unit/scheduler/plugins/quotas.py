"""Clusters under quotas, and what a pod is told, for the tests of the preempting plugins of scheduler-plugins."""

import random
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scheduler.core import Placement, PostFilterOutcome, decide, run_post_filters
from scheduler.framework import PodInfo, ProfileRunner, conclude
from scheduler.kube.model import ElasticQuota, PodDisruptionBudget
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, container, pod, runner

Amounts = Mapping[str, str]


def only(plugin: str, args: Mapping[str, Any] | None = None, **more: Any) -> ProfileRunner:
    """A profile in which a plugin preempts instead of DefaultPreemption; `more` as of `runner`."""
    plugins = {
        "multiPoint": {"enabled": [{"name": plugin}]},
        "postFilter": {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]},
    }
    return runner(plugins, {plugin: args} if args else None, **more)


def quota(
    namespace: str, least: Amounts | None = None, most: Amounts | None = None, *, name: str = "q", at: str = ""
) -> ElasticQuota:
    spec = {key: dict(value) for key, value in (("min", least), ("max", most)) if value is not None}
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": at}
    return msgspec.convert({"metadata": metadata, "spec": spec}, ElasticQuota)


def with_quotas(state: ClusterState, *quotas: ElasticQuota) -> ClusterState:
    for elastic_quota in quotas:
        state.objects.upsert("ElasticQuota", elastic_quota)
    return state


def budget(name: str, namespace: str, allowed: int, app: str) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        },
        PodDisruptionBudget,
    )


def running(name: str, namespace: str, cpu: str, priority: int, *, age: int = 3600, **fields: Any) -> PodInfo:
    moment = int(NOW - age)
    clock = f"{moment // 3600 % 24:02}:{moment // 60 % 60:02}:{moment % 60:02}"
    status = {"phase": "Running", "startTime": f"2023-11-14T{clock}Z", **fields.pop("status", {})}
    return pod(name, container(cpu), namespace=namespace, priority=priority, status=status, **fields)


def attempt(state: ClusterState, incoming: PodInfo, profile: ProfileRunner, seed: int = 1) -> Placement:
    return conclude(decide(state.snapshot(NOW), incoming, profile, random.Random(seed)))


def preempt(state: ClusterState, incoming: PodInfo, profile: ProfileRunner, seed: int = 1) -> PostFilterOutcome:
    snapshot = state.snapshot(NOW)
    placement = conclude(decide(snapshot, incoming, profile, random.Random(seed)))
    assert placement.node is None, f"fits on {placement.node} anyway"
    return conclude(run_post_filters(snapshot, placement, profile))


def names(pods: Iterable[PodInfo]) -> list[str]:
    return [pod.name for pod in pods]
