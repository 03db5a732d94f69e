"""TopologicalSort: places in an AppGroup's order, where its pods stand among others, and objects that are not there."""

import itertools
import random
from typing import Any

import pytest

from scheduler.catalog import ActionType
from scheduler.framework import Clocks, ClusterEvent, EventOrder, PodInfo, ProfileRunner
from scheduler.state import ClusterState, SchedulingQueue
from tests.unit.scheduler.core.builders import pod, runner
from tests.unit.scheduler.plugins.storage import made

GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
ALONE = {"queueSort": {"enabled": [{"name": "TopologicalSort"}], "disabled": [{"name": "PrioritySort"}]}}
# The order of upstream's own tests: it is listed by selector, as text.
ORDER = {"p1": 1, "p10": 2, "p11": 11, "p2": 10, "p3": 9, "p4": 8, "p5": 7, "p6": 6, "p7": 5, "p8": 4, "p9": 3}


def app_group(name: str, order: dict[str, int], namespace: str = "default") -> Any:
    listed = [{"workload": {"selector": selector}, "index": index} for selector, index in order.items()]
    return made("AppGroup", name, namespace, status={"topologyOrder": listed})


def profile(*groups: Any, compatibility: str = "safe", namespaces: tuple[str, ...] = ("default",)) -> ProfileRunner:
    scheduler = runner(ALONE, {"TopologicalSort": {"namespaces": list(namespaces)}}, compatibility=compatibility)
    state = ClusterState()
    for app_group in groups:
        state.objects.upsert("AppGroup", app_group)
    scheduler.use_objects(state.objects)
    return scheduler


def member(workload: str, group: str = "app", *, name: str = "", **fields: Any) -> PodInfo:
    return pod(name or f"{group}-{workload}", labels={GROUP: group, WORKLOAD: workload}, **fields)


def popped(scheduler: ProfileRunner, *pods: tuple[PodInfo, float]) -> list[str]:
    """The order in which the queue gives pods that joined it at some times."""
    now = 0.0
    queue = SchedulingQueue(clocks=Clocks(lambda: now, lambda: now), sort_key=scheduler.queue_sort.sort_key)
    for info, at in sorted(pods, key=lambda queued: queued[1]):
        now = at
        queue.add(info)
    return [popped.pod.name for _ in pods if (popped := queue.pop()) is not None]


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_workloads_of_a_group_come_in_its_order(compatibility: str) -> None:
    scheduler = profile(app_group("app", ORDER), compatibility=compatibility)
    waiting = [(member(workload), float(number)) for number, workload in enumerate(ORDER)]
    expected = [f"app-{workload}" for workload in sorted(ORDER, key=lambda workload: ORDER[workload])]
    for seed in range(20):
        mixed = [
            (info, at) for (info, _), (_, at) in zip(waiting, random.Random(seed).sample(waiting, 11), strict=True)
        ]
        assert popped(scheduler, *mixed) == expected


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_pods_of_different_groups_and_of_none_come_by_priority_and_time(compatibility: str) -> None:
    scheduler = profile(app_group("a", {"x": 9}), app_group("b", {"x": 1}), compatibility=compatibility)
    waiting = [
        (member("x", "a"), 2.0),
        (member("x", "b"), 3.0),
        (pod("plain"), 1.0),
        (pod("high", priority=5), 4.0),
        (member("x", "c", name="low", priority=-5), 0.0),
    ]
    assert popped(scheduler, *waiting) == ["high", "plain", "a-x", "b-x", "low"]


def test_a_workload_that_the_order_does_not_list_comes_first() -> None:
    scheduler = profile(app_group("app", ORDER))
    assert popped(scheduler, (member("p1"), 0.0), (member("new"), 1.0)) == ["app-new", "app-p1"]


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_pods_of_a_group_that_is_not_there_count_as_ordinary_ones(compatibility: str) -> None:
    """Upstream ends the process with a nil dereference when two such pods meet in the queue."""
    elsewhere = app_group("app", ORDER, namespace="elsewhere")
    scheduler = profile(elsewhere, compatibility=compatibility)
    waiting = [(member("p2"), 0.0), (member("p1"), 1.0), (member("p3", priority=1), 2.0)]
    assert popped(scheduler, *waiting) == ["app-p3", "app-p2", "app-p1"]


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_pods_that_are_seen_before_their_group_come_in_its_order(compatibility: str) -> None:
    scheduler, state = profile(compatibility=compatibility), ClusterState()
    scheduler.use_objects(state.objects)
    scheduler.use_pods(state.directory)
    sorter = scheduler.queue_sort
    assert isinstance(sorter, EventOrder)
    queue = SchedulingQueue(
        clocks=Clocks(lambda: 0.0, lambda: 0.0), sort_key=sorter.sort_key, reordered_by=sorter.reordered_by
    )
    for waiting in (member("p4"), member("p8"), member("p9", nodeName="n")):
        state.directory.upsert(waiting)
        if not waiting.node_name:
            queue.add(waiting)
    group = app_group("app", ORDER)
    state.objects.upsert("AppGroup", group)
    queue.on_event(ClusterEvent("AppGroup", ActionType.ADD), new=group)
    assert [queued.pod.name for _ in range(2) if (queued := queue.pop()) is not None] == ["app-p8", "app-p4"]
    same_order = ClusterEvent("AppGroup", ActionType.UPDATE)
    assert not sorter.reordered_by(same_order, group, app_group("app", ORDER))
    assert {pod.name for pod in sorter.reordered_by(same_order, group, None)} == {"app-p4", "app-p8"}
    for gone in (member("p4"), member("p8")):
        state.directory.remove(gone.uid)
    assert not sorter.reordered_by(same_order, group, None)


def test_without_any_objects_it_is_priority_and_time() -> None:
    scheduler = runner(ALONE)
    assert popped(scheduler, (member("p2"), 1.0), (member("p1"), 0.0)) == ["app-p1", "app-p2"]


def test_namespaces_are_searched_in_their_order() -> None:
    groups = (app_group("app", {"a": 1, "b": 2}, "one"), app_group("app", {"a": 2, "b": 1}, "two"))
    waiting = ((member("a"), 0.0), (member("b"), 1.0))
    assert popped(profile(*groups, namespaces=("none", "one", "two")), *waiting) == ["app-a", "app-b"]
    assert popped(profile(*groups, namespaces=("two", "one")), *waiting) == ["app-b", "app-a"]


def test_equal_places_wait_in_line_here_and_are_left_to_the_heap_upstream() -> None:
    group = app_group("app", {"a": 1})
    waiting = [(member("a", name=f"a{number}"), float(number)) for number in range(5)]
    assert popped(profile(group), *waiting) == [f"a{number}" for number in range(5)]
    first, second = (profile(group, compatibility="upstream").queue_sort.sort_key(*queued) for queued in waiting[:2])
    assert first < second
    assert second < first


def test_priority_comes_before_the_groups_order_here_and_after_it_upstream() -> None:
    group = app_group("app", {"a": 1, "b": 2})
    waiting = ((member("a"), 0.0), (member("b", priority=100), 1.0))
    assert popped(profile(group), *waiting) == ["app-b", "app-a"]
    assert popped(profile(group, compatibility="upstream"), *waiting) == ["app-a", "app-b"]


def test_an_order_that_is_not_sorted_by_selector_is_read_here_and_half_read_upstream() -> None:
    group = app_group("app", {"c": 1, "b": 2, "a": 3})
    waiting = ((member("a"), 0.0), (member("b"), 1.0), (member("c"), 2.0))
    assert popped(profile(group), *waiting) == ["app-c", "app-b", "app-a"]
    by_halving = profile(group, compatibility="upstream").queue_sort.sort_key
    # Neither a nor c is found, so that nobody goes before them.
    assert by_halving(*waiting[0]) < by_halving(*waiting[2])
    assert by_halving(*waiting[0]) < by_halving(*waiting[1])


def test_upstreams_comparison_goes_in_circles_and_ours_does_not() -> None:
    group = app_group("app", {"a": 1, "b": 2})
    early, plain, late = (member("b"), 1.0), (pod("plain"), 2.0), (member("a"), 3.0)
    upstream = [
        profile(group, compatibility="upstream").queue_sort.sort_key(*queued) for queued in (early, plain, late)
    ]
    assert upstream[0] < upstream[1] < upstream[2] < upstream[0]
    for order in itertools.permutations((early, plain, late)):
        assert popped(profile(group), *order) == ["app-a", "app-b", "plain"]


def test_a_pod_of_low_priority_does_not_bring_the_others_of_its_group_forward() -> None:
    scheduler = profile(app_group("app", {"a": 1, "b": 2}))
    waiting = ((member("a", priority=-1), 0.0), (pod("plain"), 1.0), (member("b"), 2.0))
    assert popped(scheduler, *waiting) == ["plain", "app-b", "app-a"]


def test_pods_join_their_group_for_a_minute_only() -> None:
    scheduler = profile(app_group("app", {"a": 1, "b": 2}))
    waiting = ((member("b"), 0.0), (pod("plain"), 10.0), (member("a", name="soon"), 60.0), (member("a"), 61.0))
    assert popped(scheduler, *waiting) == ["soon", "app-b", "plain", "app-a"]
    # A pod that is moved in the queue finds the minute it was in.
    assert scheduler.queue_sort.sort_key(member("a"), 30.0) == (0, 0.0, "default/app", 1, 30.0)
    assert scheduler.queue_sort.sort_key(member("a"), 100.0)[1] == 61.0
