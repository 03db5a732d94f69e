"""The reason in a pod's condition while only a quota holds it: with the option, none that makes an autoscaler buy."""

from __future__ import annotations

import pytest

from scheduler.catalog import Watch
from scheduler.engine.failures import QUOTA_EXCEEDED, SCHEDULER_ERROR, UNSCHEDULABLE, AttemptFailure, FailureReporter
from scheduler.kube.model import ElasticQuota, ElasticQuotaSpec, EventType, ObjectMeta
from tests.unit.scheduler.engine.fakes import Engine, eventually, started

QUOTAS = Watch("scheduling.x-k8s.io/v1alpha1", "elasticquotas")


def configuration(options: str) -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: secondary-scheduler
    plugins:
      multiPoint: {{enabled: [{{name: CapacityScheduling}}]}}
      postFilter: {{enabled: [{{name: CapacityScheduling}}], disabled: [{{name: "*"}}]}}
    pluginConfig: [{{name: SecondarySchedulerOptions, args: {{{options}}}}}]
"""


def engine_with(options: str, limit: str = "1") -> Engine:
    """A namespace that may use so many processors, on a node that has two."""
    engine = Engine(configuration=configuration(options))
    amounts = {"cpu": limit, "memory": "100Gi"}
    quota = ElasticQuota(
        ObjectMeta(name="quota", namespace="ns", uid="quota-uid", creation_timestamp="2026-01-01T00:00:00Z"),
        ElasticQuotaSpec(min=amounts, max=amounts),
    )
    engine.object_inputs(QUOTAS).apply([(EventType.ADDED, quota)])
    engine.add_node("n1", cpu="2")
    return engine


def reasons(engine: Engine) -> list[str]:
    """Of every condition written, in order."""
    statuses = (patch["status"] for _, patch in engine.api.patches if "status" in patch)
    return [status["conditions"][0]["reason"] for status in statuses]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", UNSCHEDULABLE),
        ("hideQuotaFromAutoscalers: false", UNSCHEDULABLE),
        ("hideQuotaFromAutoscalers: true", QUOTA_EXCEEDED),
        # Whatever else is set, upstream's reason is upstream's.
        ("hideQuotaFromAutoscalers: true, compatibility: upstream", UNSCHEDULABLE),
    ],
)
async def test_a_pod_that_only_a_quota_holds_says_so_if_the_profile_asks_for_it(options: str, expected: str) -> None:
    async with started(engine_with(options)) as engine:
        engine.add_pod("held", cpu="1500m")
        await eventually(lambda: bool(engine.api.patches), "rejected")
        assert reasons(engine) == [expected]
        (condition,) = engine.api.patches[0][1]["status"]["conditions"]
        assert "ElasticQuota ns is more than Max" in condition["message"]
        await eventually(lambda: bool(engine.api.events), "an event")
        assert [event["reason"] for event in engine.api.events] == ["FailedScheduling"]
        assert engine.metrics.schedule_attempts.labels("unschedulable", "secondary-scheduler").value == 1


async def test_a_pod_within_its_quota_that_fits_on_no_node_still_asks_for_one() -> None:
    async with started(engine_with("hideQuotaFromAutoscalers: true", limit="10")) as engine:
        engine.add_pod("big", cpu="3")
        await eventually(lambda: bool(engine.api.patches), "rejected")
        assert reasons(engine) == [UNSCHEDULABLE]


@pytest.mark.parametrize(
    ("rejectors", "reason", "expected"),
    [
        ({"CapacityScheduling"}, UNSCHEDULABLE, QUOTA_EXCEEDED),
        # A gang is rejected for one of its members: no node helps it either.
        ({"CapacityScheduling", "Coscheduling"}, UNSCHEDULABLE, QUOTA_EXCEEDED),
        ({"CapacityScheduling", "NodeResourcesFit"}, UNSCHEDULABLE, UNSCHEDULABLE),
        ({"Coscheduling"}, UNSCHEDULABLE, UNSCHEDULABLE),
        (set(), UNSCHEDULABLE, UNSCHEDULABLE),
        ({"CapacityScheduling"}, SCHEDULER_ERROR, SCHEDULER_ERROR),
    ],
)
async def test_only_rejections_by_the_quota_alone_are_hidden(rejectors: set[str], reason: str, expected: str) -> None:
    async with started(Engine()) as engine:
        pod = engine.add_pod("p", cpu="1")
        reporter = FailureReporter(quiet={"secondary-scheduler"})
        reporter.report(engine.handle, pod, AttemptFailure("no", reason, frozenset(rejectors)))
        await eventually(lambda: bool(engine.api.patches), "reported")
        assert reasons(engine)[0] == expected


async def test_the_reason_follows_when_the_quota_lets_the_pod_go_and_no_node_takes_it() -> None:
    async with started(Engine()) as engine:
        pod = engine.add_pod("p", scheduler="other", cpu="1")
        reporter = FailureReporter(quiet={"other"})
        held = AttemptFailure("the quota", UNSCHEDULABLE, frozenset({"CapacityScheduling"}))
        full = AttemptFailure("the nodes", UNSCHEDULABLE, frozenset({"NodeResourcesFit"}))
        for failure in (held, full, held):
            before = len(engine.api.patches)
            reporter.report(engine.handle, pod, failure)
            await eventually(lambda before=before: len(engine.api.patches) > before, "reported")  # type: ignore[misc]
        assert reasons(engine) == [QUOTA_EXCEEDED, UNSCHEDULABLE, QUOTA_EXCEEDED]
