"""What is not charged for costs an attempt nothing: ten times as long a list takes as many calls of functions."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.core import decide, run_post_filters
from scheduler.framework import PodInfo, conclude
from scheduler.kube.model.bounds import ROWS, Kind
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.core.hostile import HOST, ZONE, Work, required
from tests.unit.scheduler.plugins import devices
from tests.unit.scheduler.plugins.storage import made, put

Situation = tuple[ClusterState, PodInfo]
LONG, LONGER = 400, 4_000


def some_cluster() -> ClusterState:
    return cluster(node("n0", labels={ZONE: "z"}), node("n1", labels={ZONE: "z"}))


def listing(build: Callable[[int], dict[str, Any]]) -> Callable[[int], Situation]:
    """A pod with such fields, in a cluster of two nodes."""

    def situation(number: int) -> Situation:
        fields = build(number)
        return some_cluster(), pod("p", *fields.pop("containers", [container("1m")]), labels={"app": "x"}, **fields)

    return situation


def keys(number: int) -> dict[str, str]:
    return {f"k{n}": "v" for n in range(number)}


def claim_with_metadata(field: str, value: Callable[[int], Any]) -> Callable[[int], Situation]:
    def situation(number: int) -> Situation:
        state = put(some_cluster(), devices.device_class(), devices.devices_of("n0", "d"))
        put(state, devices.claim("c", metadata={field: value(number)}))
        return state, pod("p", resourceClaims=[{"name": "r", "resourceClaimName": "c"}])

    return situation


def claim_template(field: str) -> Callable[[int], Situation]:
    return listing(
        lambda n: {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {field: keys(n)}}}}]}
    )


def budget(number: int) -> Situation:
    state = cluster(node("n0", allocatable={"cpu": "1"}))
    state.upsert_pod(pod("low", container("1"), nodeName="n0", labels={"app": "a"}))
    status = {"disruptionsAllowed": 1, "disruptedPods": dict.fromkeys(keys(number), "2026-01-01T00:00:00Z")}
    spec = {"selector": {"matchLabels": {"app": "a"}}}
    put(state, made("PodDisruptionBudget", "b", "default", spec=spec, status=status))
    return state, pod("p", container("1"), priority=9)


def statuses(number: int) -> list[dict[str, Any]]:
    return [{"name": f"c{n}", "allocatedResources": {"cpu": "1m"}} for n in range(number)]


def in_one_term(field: str) -> Callable[[int], Situation]:
    def build(number: int) -> dict[str, Any]:
        term = {"topologyKey": HOST, "labelSelector": {}, field: [f"k{n}" for n in range(number)]}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    return listing(build)


CASES: dict[tuple[str, str], Callable[[int], Situation]] = {
    ("ObjectMeta", "annotations"): listing(lambda n: {"metadata": {"annotations": keys(n)}}),
    ("ClaimMeta", "labels"): claim_with_metadata("labels", keys),
    ("ClaimMeta", "annotations"): claim_with_metadata("annotations", keys),
    ("ClaimMeta", "owner_references"): claim_with_metadata(
        "ownerReferences", lambda n: [{"name": f"o{i}"} for i in range(n)]
    ),
    ("ClaimMeta", "finalizers"): claim_with_metadata("finalizers", lambda n: [*keys(n)]),
    ("TemplateMeta", "labels"): claim_template("labels"),
    ("TemplateMeta", "annotations"): claim_template("annotations"),
    ("PodDisruptionBudgetStatus", "disrupted_pods"): budget,
    ("PodAffinityTerm", "match_label_keys"): in_one_term("matchLabelKeys"),
    ("PodAffinityTerm", "mismatch_label_keys"): in_one_term("mismatchLabelKeys"),
    ("Container", "restart_policy_rules"): listing(
        lambda n: {"containers": [container("1m", restartPolicyRules=[{"action": "Restart"}] * n)]}
    ),
    ("ResourceRequirements", "limits"): listing(
        lambda n: {"containers": [container("1m", limits={f"example.com/k{i}": "1" for i in range(n)})]}
    ),
    ("ResourceRequirements", "claims"): listing(
        lambda n: {"containers": [{"name": "c", "resources": {"claims": [{"name": f"k{i}"} for i in range(n)]}}]}
    ),
    ("PodStatus", "container_statuses"): listing(lambda n: {"status": {"containerStatuses": statuses(n)}}),
    ("PodStatus", "init_container_statuses"): listing(lambda n: {"status": {"initContainerStatuses": statuses(n)}}),
    ("PodStatus", "resource_claim_statuses"): listing(
        lambda n: {"status": {"resourceClaimStatuses": [{"name": key} for key in keys(n)]}}
    ),
}
"""By field, a situation with so many entries of it."""


def test_every_field_that_is_not_charged_for_has_a_case() -> None:
    others = {field for field, bound in ROWS.items() if bound.kind in (Kind.ONCE, Kind.LOOKED_UP)}
    assert set(CASES) == others


def calls(situation: Situation) -> int:
    """Of the second attempt: what is done once per version of an object is done by then."""
    state, info = situation
    profile, chance = runner(), random.Random(1)
    for _ in range(2):
        with Work() as work:
            placement = conclude(decide(state.snapshot(NOW), info, profile, chance, from_scratch=True))
            if placement.diagnosis is not None:
                conclude(run_post_filters(state.snapshot(NOW), placement, profile))
    return work.calls


@pytest.mark.parametrize("field", CASES, ids=".".join)
def test_ten_times_as_long_a_list_takes_as_many_calls(field: tuple[str, str]) -> None:
    assert calls(CASES[field](LONGER)) < 1.05 * calls(CASES[field](LONG))


def test_a_list_that_is_charged_for_would_be_noticed() -> None:
    long, longer = ((some_cluster(), pod("p", **required([{}] * number))) for number in (LONG, LONGER))
    assert calls(longer) > 2 * calls(long)


def ports_of_another_pod(number: int) -> Situation:
    state = some_cluster()
    ports = [{"containerPort": 1, "hostPort": port, "hostIP": "127.0.0.1"} for port in range(1, number)]
    state.upsert_pod(pod("old", container("1m", ports=ports), nodeName="n0"))
    own = [{"containerPort": 1, "hostPort": number - 1, "hostIP": "127.0.0.2"}]
    return state, pod("p", container("1m", ports=own))


def test_a_pod_does_not_go_through_the_ports_of_others() -> None:
    assert calls(ports_of_another_pod(LONGER)) < 1.05 * calls(ports_of_another_pod(LONG))
