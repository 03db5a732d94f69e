"""A stack with `rebalance`: the rebalancer runs as a pod, with the rights and credentials that the stack gives it, and
goes with the setting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.support.live_stack import NAME, NAMESPACE, Live
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
REBALANCER = f"{NAME}-rebalancer"


@pytest.fixture
def live(cluster_state_root: Path, tmp_path: Path) -> Iterator[Live]:
    with LocalCluster(ClusterSpec(name="rebalance", nodes=3, state_root=cluster_state_root)) as cluster:
        stack = Live(cluster, tmp_path, "rebalance")
        yield stack
        stack.close()


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
    live.nothing_to_change()
    live.up(rebalance={"mode": "Off"})
    assert REBALANCER not in live.deployments()
    assert not [name for name in live.cluster_scoped() - before if "rebalancer" in name]
