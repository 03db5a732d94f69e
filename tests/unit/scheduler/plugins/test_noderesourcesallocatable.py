"""NodeResourcesAllocatable: upstream's own cases, amounts of every kind, and what cannot be added up."""

import numpy as np
import pytest

from scheduler.core import explain
from scheduler.framework import ProfileRunner
from scheduler.helpers import go_divide, min_max_normalize
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, only_scores, pod, runner

NAME = "NodeResourcesAllocatable"
MI = 1 << 20


def profile(mode: str = "Least", **weights: int) -> ProfileRunner:
    resources = [{"name": name.replace("__", "/"), "weight": weight} for name, weight in weights.items()]
    args = {"mode": mode, **({"resources": resources} if resources else {})}
    return runner(only_scores(NAME), {NAME: args})


def scores(scheduler: ProfileRunner, *sizes: dict[str, str]) -> list[tuple[int, int]]:
    state = cluster(*(node(f"n{number}", allocatable=size) for number, size in enumerate(sizes)))
    explanation = explain(state.snapshot(NOW), pod("p", container(cpu="1")), scheduler)
    return [(explained.scores[NAME].raw, explained.scores[NAME].normalized) for _, explained in explanation.nodes()]


def size(cpu: int, memory: int) -> dict[str, str]:
    return {"cpu": f"{cpu}m", "memory": str(memory)}


# The table of TestNodeResourcesAllocatable (pkg/noderesources/allocatable_test.go).
@pytest.mark.parametrize(
    ("sizes", "least", "most"),
    [
        pytest.param([(4000, 10000), (4000, 10000)], [0, 0], [0, 0], id="equal nodes"),
        pytest.param([(4000, 10000), (6000, 10000)], [100, 0], [0, 100], id="two sizes"),
        pytest.param(
            [(1000, 1000 * MI), (2000, 2000 * MI), (3000, 3000 * MI)], [100, 50, 0], [0, 50, 100], id="three sizes"
        ),
    ],
)
def test_small_or_large_nodes_come_first(sizes: list[tuple[int, int]], least: list[int], most: list[int]) -> None:
    sized = [size(*amounts) for amounts in sizes]
    assert [score for _, score in scores(profile("Least"), *sized)] == least
    assert [score for _, score in scores(profile("Most"), *sized)] == most


def test_the_raw_score_is_the_weighted_mean_cut_towards_zero() -> None:
    sizes = (size(1999, 7), size(2000, 7))
    assert [raw for raw, _ in scores(profile("Most", cpu=2, memory=3), *sizes)] == [803, 804]
    assert [raw for raw, _ in scores(profile("Least", cpu=2, memory=3), *sizes)] == [-803, -804]


def test_a_resource_that_a_node_lacks_counts_as_none() -> None:
    allocatables = ({"example.com/gpu": "8"}, {})
    assert scores(profile("Most", example__none=1, **{"example.com__gpu": 1}), *allocatables) == [(4, 100), (0, 0)]


def test_what_is_used_does_not_matter() -> None:
    empty, full = node("empty"), node("full")
    state = cluster(empty, full, pods={"full": [pod("there", container(cpu="2"))]})
    explanation = explain(state.snapshot(NOW), pod("p"), profile())
    assert {explained.scores[NAME].normalized for _, explained in explanation.nodes()} == {0}


def test_weights_beyond_64_bits_are_refused() -> None:
    with pytest.raises(ValueError, match=f"{NAME}.*beyond 64 bits"):
        profile(cpu=(1 << 63) - 1, memory=1)


def test_products_beyond_64_bits_wrap_around_and_the_score_stays_in_range() -> None:
    result = scores(profile("Most", memory=1 << 40), size(1000, 1 << 33), size(1000, 1 << 30))
    assert [raw for raw, _ in result] == [0, 0]
    assert all(0 <= score <= 100 for _, score in result)


def test_integers_divide_as_in_go() -> None:
    dividends = np.array([7, -7, 7, -7, 6, -6, 0], dtype=np.int64)
    divisors = np.array([2, 2, -2, -2, 3, 3, 5], dtype=np.int64)
    assert go_divide(dividends, divisors).tolist() == [3, -3, -3, 3, 2, -2, 0]
    assert min_max_normalize(np.array([-3, 0, 4], dtype=np.int64)).tolist() == [0, 42, 100]
    assert min_max_normalize(np.array([], dtype=np.int64)).tolist() == []
