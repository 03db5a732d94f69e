"""A stack with `rebalance`: the operator runs the rebalancer as a pod, with rights of its own and the source's
credentials; it goes with the setting, and takes over from one that the stack installed itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live_stack import NAME, NAMESPACE, Live, live_stack
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
REBALANCER = f"{NAME}-rebalancer"


@pytest.fixture
def live(cluster_state_root: Path, tmp_path: Path) -> Iterator[Live]:
    with live_stack(cluster_state_root, tmp_path, "rebalance") as stack:
        yield stack


def status(live: Live) -> dict[str, Any]:
    """What the rebalancer says of itself; empty while it says nothing."""
    listed = live.core.list_namespaced_config_map(NAMESPACE, field_selector=f"metadata.name={REBALANCER}").items
    return dict(json.loads(listed[0].data["status.json"])) if listed else {}


def test_the_rebalancer_of_a_stack_plans_and_goes_with_its_setting(live: Live) -> None:
    before = live.cluster_scoped()
    live.up(rebalance={"mode": "Predictive", "intervalSeconds": 10})
    assert set(live.deployments()) >= {NAME, REBALANCER}
    planned = eventually(lambda: status(live).get("lastPlan"), "a plan was made", diagnosis=lambda: status(live))
    # It has read load and health: what stops it, if anything, is no fault of its own.
    reasons = {entry["reason"] for entry in planned["stopped"]}
    assert not reasons & {"noLoad", "loadNotFresh", "schedulerUnavailable", "otherConfiguration"}, planned
    assert status(live)["effectiveMode"] == "Predictive"
    assert ready(live) == "True"
    live.nothing_to_change()
    live.up(rebalance={"mode": "Off"})
    gone(live, before)


def gone(live: Live, before: set[str]) -> None:
    """The operator takes it away after the update."""

    def left() -> set[str]:
        names = live.cluster_scoped() - before
        return {name for name in (*names, *live.deployments()) if "rebalancer" in name or "evictions" in name}

    eventually(lambda: not left(), "the rebalancer is gone", diagnosis=left)


def ready(live: Live) -> str:
    """The status of the SecondaryScheduler's condition about it; "" while there is none."""
    place = ("operator.openshift.io", "v1", NAMESPACE, "secondaryschedulers", "cluster")
    conditions = live.custom.get_namespaced_custom_object(*place).get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == "RebalancerReady"), "")


def test_a_stack_hands_the_rebalancer_that_it_installed_over_to_the_operator(live: Live) -> None:
    before = live.cluster_scoped()
    predictive = {"mode": "Predictive", "intervalSeconds": 10}
    live.up(rebalance={**predictive, "runBy": "Program"})
    assert REBALANCER in live.deployments()
    eventually(lambda: status(live).get("lastPlan"), "a plan was made", diagnosis=lambda: status(live))
    written = live.core.read_namespaced_config_map(REBALANCER, NAMESPACE).metadata.uid
    live.up(rebalance=predictive)

    def operated() -> bool:
        owners = live.apps.read_namespaced_deployment(REBALANCER, NAMESPACE).metadata.owner_references or []
        return [owner.kind for owner in owners] == ["SecondaryScheduler"]

    eventually(lambda: REBALANCER in live.deployments() and operated(), "the operator runs it")
    eventually(lambda: ready(live) == "True", "it is ready")
    # Its history has come with it: limits and cooldowns go on.
    assert live.core.read_namespaced_config_map(REBALANCER, NAMESPACE).metadata.uid == written
    live.nothing_to_change()
    live.up(rebalance={"mode": "Off"})
    gone(live, before)
