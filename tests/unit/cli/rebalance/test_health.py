"""Which scheduler `rebalance plan` asks on a cluster, and what it makes of the answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from scheduler.config import load_configuration
from secondary_scheduler.cli.rebalance.running import health_in
from secondary_scheduler.clusterstatus.installations import CallerLimits, read_installations
from secondary_scheduler.rebalancing import Reason, SchedulerHealth
from tests.support.rebalancing import moved, one_hot_node
from tests.unit.cli.fakeapi import FakeConnection
from tests.unit.cli.status import installation as made

NOW = made.NOW.timestamp()


def health(
    *,
    refused: Collection[str] = (),
    configuration: str = made.CONFIGURATION,
    warnings: list[str] | None = None,
    **more: Any,
) -> SchedulerHealth | None:
    limits = CallerLimits()
    connection: Any = FakeConnection(made.installation(**more), refused)
    read = read_installations(connection, "https://api:6443", None, limits)
    planned = load_configuration(configuration, source="config.yaml")
    return health_in(read, limits, planned, NOW, [].append if warnings is None else warnings.append)


def test_the_scheduler_that_serves_the_profiles_is_asked() -> None:
    assert health() == SchedulerHealth(running=made.HASH, planned=made.HASH)


UNHEALTHY = [
    ({"crs": [made.resource(made.condition("Available", "False", "NoReplica"))]}, "is not available: NoReplica"),
    ({"crs": [made.resource(made.condition("Progressing", "True", "Canary", "2 of 3"))]}, "rolls out: 2 of 3"),
    ({"deployments": [made.OPERATOR, made.deployment(ready=0)]}, "none of 1 replicas of"),
    ({"deployments": [made.OPERATOR, made.deployment(ready=1, replicas=2)]}, "rolls out: 1 of 2 replicas are new"),
    ({"leases": []}, "has no Lease"),
    ({"leases": [made.lease(holder="")]}, "leads"),
    ({"leases": [made.lease(renewed="2026-11-24T11:50:00.000000Z")]}, "has not renewed its Lease for 600 s"),
    ({"leases": [made.lease(renewed="yesterday")]}, "does not say when"),
    ({"deployments": [made.OPERATOR, made.deployment(args=("--leader-elect=false",))]}, "elects no leader"),
]


@pytest.mark.parametrize(("answers", "problem"), UNHEALTHY)
def test_a_scheduler_that_cannot_place_a_replacement_is_a_problem(answers: dict[str, Any], problem: str) -> None:
    judged = health(**answers)
    assert judged is not None
    assert problem in judged.problem
    # And nothing is moved then, by rule 8.
    plan = one_hot_node().plan(health=judged)
    assert moved(plan) == []
    assert Reason.SCHEDULER_UNAVAILABLE in [refusal.reason for refusal in plan.stopped]


def test_a_scheduler_that_calls_its_load_stale_stops_the_round() -> None:
    judged = health(leases=[made.lease(load_data_fresh="false", load_data_message="prometheus is away")])
    assert judged is not None
    assert judged.load_problem == "prometheus is away"
    plan = one_hot_node().plan(health=judged)
    assert [refusal.reason for refusal in plan.stopped] == [Reason.LOAD_NOT_FRESH]


def test_a_scheduler_with_another_configuration_stops_the_round() -> None:
    judged = health(configuration=made.CONFIGURATION.replace("weight: 10", "weight: 11"))
    assert judged is not None
    assert judged.running == made.HASH != judged.planned
    assert [refusal.reason for refusal in one_hot_node().plan(health=judged).stopped] == [Reason.OTHER_CONFIGURATION]


def test_where_nobody_serves_the_profiles_nothing_moves() -> None:
    judged = health(configuration=made.CONFIGURATION.replace("mine", "yours"))
    assert judged is not None
    assert judged.problem == "a scheduler of yours has no Deployment"


def test_what_the_caller_may_not_read_is_said_and_assumed() -> None:
    warnings: list[str] = []
    assert health(refused=[made.LEASES], warnings=warnings) is None
    assert "list leases" in warnings[0]
    warnings.clear()
    assert health(refused=[made.DEPLOYMENTS, made.CONFIG_MAP], warnings=warnings) is None
    assert any("list deployments" in line for line in warnings)


def test_a_scheduler_in_any_namespace_is_asked() -> None:
    deployment, lease = made.deployment(), made.lease()
    for item in (deployment, lease):
        item["metadata"]["namespace"] = "apps"
    answers = {
        made.CRS: [],
        "/apis/apps/v1/deployments": [deployment],
        made.LEASES: [],
        "/apis/coordination.k8s.io/v1/namespaces/apps/leases": [lease],
        "/api/v1/namespaces/apps/configmaps/active": {"data": {"config.yaml": made.CONFIGURATION}},
    }
    connection: Any = FakeConnection(answers)
    limits = CallerLimits()
    read = read_installations(connection, "https://api:6443", None, limits, everywhere=True)
    planned = load_configuration(made.CONFIGURATION, source="config.yaml")
    judged = health_in(read, limits, planned, NOW, [].append)
    assert judged == SchedulerHealth(running=made.HASH, planned=made.HASH)
