"""What a score means in the cases that decide between nodes, and where ours is deliberately another than upstream's."""

import random

import pytest

from scheduler.core import decide, explain
from scheduler.framework import PodInfo, conclude
from tests.unit.scheduler.core.builders import NOW, container, pod
from tests.unit.scheduler.plugins.numa import NAME, asking, guaranteed, numa_runner, scores, state_of, topology, zone

TWO = {"cpu": "2", "memory": "1Gi"}
LEAST_ZONES = {"scoringStrategy": {"type": "LeastNUMANodes", "resources": []}}


def distances(*rows: tuple[int, ...]) -> list[dict[int, int]]:
    return [dict(enumerate(row)) for row in rows]


def test_the_worst_zone_that_can_take_the_pod_decides() -> None:
    state = state_of(
        topology("n", zone(0, cpu="4", memory="2Gi"), zone(1, cpu="8", memory="4Gi"), zone(2, cpu="1", memory="0"))
    )
    assert scores(state, guaranteed(TWO), numa_runner()) == {"n": (50 + 50) // 2}
    most = numa_runner(scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]})
    assert scores(state, guaranteed(TWO), most) == {"n": (25 * 3 + 25) // 4}


def test_cpu_is_rounded_up_to_whole_ones() -> None:
    state = state_of(topology("n", zone(0, cpu="3500m", memory="4Gi")))
    new = guaranteed({"cpu": "1500m", "memory": "1Gi"})
    assert scores(state, new, numa_runner()) == {"n": ((4 - 2) * 100 // 4 + 75) // 2}


def test_pods_that_are_not_guaranteed_find_every_node_equally_good() -> None:
    state = state_of(topology("n", zone(0, cpu="1", memory="1Gi")), topology("m"))
    assert scores(state, pod("new", container("1")), numa_runner()) == {"n": 100, "m": 100}


def test_nodes_without_an_object_or_with_another_policy_score_nothing() -> None:
    state = state_of(topology("n", zone(0, cpu="4", memory="4Gi"), policy="restricted"), topology("m"))
    state.objects.remove("NodeResourceTopology", "", "m")
    assert scores(state, guaranteed(TWO), numa_runner()) == {"n": 0, "m": 0}
    assert scores(state, guaranteed(TWO), numa_runner(**LEAST_ZONES)) == {"n": 100 - 12 + 6, "m": 0}


def test_fewer_and_nearer_zones_are_better() -> None:
    costs = distances((10, 12, 20), (12, 10, 20), (20, 20, 10))
    near = [zone(number, costs[number], cpu="3", memory="4Gi") for number in range(3)]
    far = [zone(number, costs[number], cpu="3" if number != 1 else "0", memory="4Gi") for number in range(3)]
    state = state_of(topology("near", *near), topology("far", *far), topology("full", zone(0, cpu="1", memory="1Gi")))
    runner = numa_runner(**LEAST_ZONES)
    assert scores(state, guaranteed({"cpu": "6", "memory": "1Gi"}), runner) == {
        "near": 100 - 2 * 12 + 6,
        "far": 100 - 2 * 12,
        "full": 0,
    }


def test_a_pod_that_asks_for_nothing_of_the_zones_finds_the_best_score() -> None:
    state = state_of(topology("n", zone(0, nic="1")))
    assert scores(state, guaranteed(TWO), numa_runner(**LEAST_ZONES)) == {"n": 100}


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", 0), ("upstream", 100 - 12 + 6)])
def test_a_container_reduces_the_zone_chosen_for_it(compatibility: str, expected: int) -> None:
    """Upstream takes a zone's number for its position in the list: the second container finds the CPUs that the first
    one has taken."""
    zones = [zone(1, cpu="1", memory="4Gi"), zone(0, cpu="2", memory="4Gi")]
    state = state_of(topology("n", *zones, policy="restricted"))
    assert scores(state, guaranteed(TWO, TWO), numa_runner(compatibility, **LEAST_ZONES)) == {"n": expected}


def test_more_zones_than_the_node_says_it_may_use_score_zero_and_the_pod_is_placed() -> None:
    """Upstream: 100 - 3 * 50 is below 0, which fails every pod that gets there."""
    zones = [zone(number, cpu="2", memory="2Gi") for number in range(3)]
    item = topology("n", *zones, policy="restricted", attributes={"topologyManagerMaxNUMANodes": "2"})
    state = state_of(item, topology("m", *zones, policy="restricted"))
    explanation = explain(state.snapshot(NOW), guaranteed({"cpu": "6", "memory": "1Gi"}), numa_runner(**LEAST_ZONES))
    normalized = {name: node.scores[NAME].normalized for name, node in explanation.nodes()}
    assert normalized == {"n": 0, "m": 100 - 3 * 12 + 6}
    assert explanation.counters[f"clamped_scores/{NAME}"] == 1


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated", "BalancedAllocation"])
def test_a_container_without_requests_in_a_guaranteed_pod_scores_nothing(strategy: str) -> None:
    """Upstream divides by zero and ends in a panic, or by the variance of nothing."""
    whole = {"cpu": "2", "memory": "1Gi"}
    new = pod("new", asking(**TWO), container(), resources={"requests": whole, "limits": whole})
    state = state_of(topology("n", zone(0, cpu="4", memory="4Gi")))
    runner = numa_runner("upstream", scoringStrategy={"type": strategy, "resources": []})
    alone = scores(state, guaranteed(TWO), runner)["n"]
    assert scores(state, new, runner) == {"n": alone // 2}


def test_a_single_request_is_balanced() -> None:
    """Upstream: the variance of one number is no number, which fails every pod that gets there."""
    whole = {"cpu": "2", "memory": "1Gi"}
    new = pod("new", container("2"), resources={"requests": whole, "limits": whole})
    state = state_of(topology("n", zone(0, cpu="4", memory="4Gi")))
    runner = numa_runner(scoringStrategy={"type": "BalancedAllocation", "resources": []})
    assert scores(state, new, runner) == {"n": 100}


def test_many_zones_do_not_hold_up_the_scheduler() -> None:
    """Upstream lists every combination: of 40 zones, 137 billion of 20."""
    zones = [zone(number, cpu="1", memory="2Gi") for number in range(40)]
    state = state_of(topology("n", *zones, policy="restricted", attributes={"topologyManagerMaxNUMANodes": "64"}))
    runner = numa_runner(**LEAST_ZONES)
    assert scores(state, guaranteed({"cpu": "3", "memory": "1Gi"}), runner) == {"n": 100 - 3}
    assert scores(state, guaranteed({"cpu": "20", "memory": "1Gi"}), runner) == {"n": 0}


def test_pods_without_a_claim_on_zones_are_decided_as_if_the_plugin_were_called_again() -> None:
    """What is kept for a class of pods must not hide a change of the zones from the pods that it matters to."""
    state = state_of(topology("n", zone(0, cpu="4", memory="4Gi")), topology("m", zone(0, cpu="8", memory="4Gi")))
    runner, rng = numa_runner(), random.Random(1)

    def chosen(new: PodInfo) -> str | None:
        return conclude(decide(state.snapshot(NOW), new, runner, rng)).node

    for _ in range(3):
        assert chosen(guaranteed(TWO)) == "m"
        assert {chosen(pod("plain")) for _ in range(30)} == {"n", "m"}
        assert chosen(guaranteed({"cpu": "6", "memory": "1Gi"})) == "m"
    state.objects.upsert("NodeResourceTopology", topology("m", zone(0, cpu="1", memory="4Gi")))
    for _ in range(3):
        assert chosen(guaranteed(TWO)) == "n"
        assert {chosen(pod("plain")) for _ in range(30)} == {"n", "m"}
        assert chosen(guaranteed({"cpu": "6", "memory": "1Gi"})) is None
