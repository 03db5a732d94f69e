"""The rebalancer in a closed loop: the nodes' load is what their pods use, and it follows every move."""

from __future__ import annotations

import pytest

from benchmarks.rebalancing.command import compare
from benchmarks.rebalancing.movers import PAIRS
from benchmarks.rebalancing.placement import place_pods
from benchmarks.rebalancing.run import Pace
from devcluster.inventory import simulated_nodes

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_an_uneven_cluster_becomes_more_even_and_no_pod_is_moved_in_vain() -> None:
    placement = place_pods(simulated_nodes(12), 90, 1)
    (result,) = compare([PAIRS["ours"]], placement, Pace(rounds=14, quiet=8))
    assert result.before.overloaded >= 3
    assert result.after.stddev < result.before.stddev
    assert result.after.overloaded < result.before.overloaded
    assert result.came_back == 0
    assert result.again == 0, result.evictions
    assert result.guarded == 0, "a pod was evicted that a rule keeps"
    # Nothing was asked for that the API server refused.
    assert result.answers == {201: len(result.evictions)}
    assert result.waiting == 0
