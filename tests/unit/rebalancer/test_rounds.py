"""The rebalancer's loop on a fake clock: each safety rule broken, how moves end, and what a restart knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from secondary_scheduler.rebalancer.metrics import RebalancerMetrics
from secondary_scheduler.rebalancer.rounds import FOLLOW_SECONDS
from secondary_scheduler.rebalancer.status import Mode
from secondary_scheduler.rebalancing import SchedulerHealth
from tests.support.rebalancer import Killed, Loop
from tests.support.rebalancing import Object, Scene, one_hot_node, replica_set, running
from tests.support.simulating import node


def hot(pods: int = 1, **more: Any) -> Scene:
    """A hot node with so many pods of a workload, and three others with one each."""
    return one_hot_node(4, pods=pods, **more)


def two_hot_nodes() -> Scene:
    """Two pools, each with a hot node that has a pod of a workload of its own."""
    names = [f"n{number}" for number in range(6)]
    objects: list[Object] = [node(name) for name in names]
    for number, item in enumerate(objects):
        item["metadata"]["labels"]["pool"] = f"pool-{number % 2}"
    for number in (0, 1):
        pool = {"nodeSelector": {"pool": f"pool-{number}"}}
        objects += [running(f"hot-{number}", f"n{number}", owner=f"web-{number}", **pool)]
        objects += [running(f"cool-{number}", f"n{number + 2}", owner=f"web-{number}", **pool)]
    return Scene(objects, {name: 95.0 if name in ("n0", "n1") else 20.0 for name in names})


async def test_two_nodes_are_relieved_in_one_round() -> None:
    loop = Loop(two_hot_nodes())
    await loop.rounds()
    assert loop.evicted == ["default/hot-0", "default/hot-1"]


def budget(allowed: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


async def test_a_pod_of_a_hot_node_is_moved_and_lands() -> None:
    loop = Loop(hot())
    await loop.rounds()
    assert loop.evicted == ["default/hot-0"]
    assert loop.world.outcomes == [("default/hot-0", "landed")]
    (move,) = loop.world.status["moves"]
    assert (move["from"], move["outcome"]) == ("n0", "landed")
    assert loop.world.status["lastPlan"]["moves"][0]["answer"] == "evicted"
    assert loop.world.condition == ("True", "Automatic")
    text = loop.metrics.expose().decode()
    assert 'secondary_scheduler_rebalance_moves_total{outcome="landed"} 1.0' in text
    assert 'secondary_scheduler_rebalance_mode{mode="Automatic"} 1.0' in text


# The rules ------------------------------------------------------------------------------------------------------------
def bare(item: Object) -> object:
    return item["metadata"].pop("ownerReferences")


def of_another_scheduler(item: Object) -> object:
    return item["spec"].update(schedulerName="another")


@pytest.mark.parametrize("change", [bare, of_another_scheduler])
async def test_rule_1_a_pod_that_nobody_of_ours_replaces_is_never_evicted(change: Callable[[Object], object]) -> None:
    loop = Loop(hot().change("hot-0", change))
    await loop.rounds(5)
    assert loop.world.evictions == []


async def test_rule_2_a_node_must_be_overloaded_in_three_rounds_in_a_row() -> None:
    loop = Loop(hot(), {"consecutiveAbnormalities": 3})
    await loop.rounds(2)
    assert loop.evicted == []
    loop.world.scene.cpu["n0"] = 50.0
    await loop.rounds()
    loop.world.scene.cpu["n0"] = 95.0
    await loop.rounds(2)
    assert loop.evicted == []
    await loop.rounds()
    assert loop.evicted == ["default/hot-0"]


async def test_rule_2_a_pause_of_the_rebalancer_is_no_round_in_a_row() -> None:
    loop = Loop(hot(), {"consecutiveAbnormalities": 3})
    await loop.rounds(2)
    loop.clock.advance(3600)
    loop.restart()
    await loop.rounds(2)
    assert loop.evicted == []
    await loop.rounds()
    assert loop.evicted == ["default/hot-0"]


async def test_rule_3_stale_load_moves_nothing_and_the_condition_says_so() -> None:
    loop = Loop(hot(), stale_seconds=600.0)
    await loop.rounds(3)
    assert loop.world.evictions == []
    assert loop.world.condition == ("False", "NoLoad")


async def test_rule_3_a_scheduler_without_fresh_load_moves_nothing() -> None:
    loop = Loop(hot(), health=SchedulerHealth(load_problem="prometheus is away"))
    await loop.rounds(3)
    assert loop.world.evictions == []
    assert loop.world.condition == ("False", "LoadNotFresh")


async def test_rule_4_a_budget_without_disruptions_left_is_not_even_asked() -> None:
    loop = Loop(hot().with_objects(budget(0)))
    await loop.rounds(3)
    assert loop.world.evictions == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (429, "Cannot evict pod as it would violate the pod's disruption budget."),
        (500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."),
        (403, "forbidden"),
        (409, "the UID in the precondition does not match"),
        (404, "not found"),
    ],
)
async def test_rule_4_a_refusal_is_an_answer_and_ends_the_round(code: int, message: str) -> None:
    loop = Loop(two_hot_nodes(), answers=[(code, message)])
    await loop.rebalancer.turn()
    # The second move was planned for the case that the first is made.
    assert len(loop.evicted) == 1
    for _ in range(299):
        loop.clock.advance(1)
        await loop.rebalancer.turn()
    assert len(loop.evicted) == 1
    assert [outcome for _, outcome in loop.world.outcomes] == ["refused"]
    assert message in loop.world.status["moves"][0]["detail"]


async def test_rule_4_an_evacuation_is_a_move_in_progress_until_the_pod_is_gone() -> None:
    loop = Loop(hot(), {"cooldownSeconds": 0}, answers=[(429, "Eviction triggered evacuation of VMI")])
    await loop.rebalancer.turn()
    assert loop.world.outcomes == []
    loop.clock.advance(400)
    await loop.rebalancer.turn()
    assert loop.evicted == ["default/hot-0"]
    loop.world.replace_pod("uid-hot-0")
    await loop.rebalancer.follow()
    assert loop.world.outcomes == [("default/hot-0", "landed")]


async def test_rule_4_an_evacuation_that_takes_more_than_ten_minutes_has_expired() -> None:
    loop = Loop(hot(), answers=[(429, "Eviction triggered evacuation of VMI")])
    await loop.rounds(seconds=599)
    assert loop.world.outcomes == []
    loop.clock.advance(1)
    await loop.rebalancer.follow()
    assert loop.world.outcomes == [("default/hot-0", "expired")]


async def test_rule_5_no_second_pod_of_a_workload_goes_while_the_first_has_no_node() -> None:
    loop = Loop(hot(3), {"minReplicas": 1, "cooldownSeconds": 0}, places_on=lambda move: None)
    await loop.rounds(1)
    # Enough for the rest not to count as too many pending pods.
    loop.world.scene.objects += [running(f"more-{number}", "n2", owner="more", cpu="1m") for number in range(30)]
    await loop.rounds()
    assert len(loop.evicted) == 1
    assert loop.world.outcomes == [("default/hot-0", "expired")]


async def test_rule_5_a_node_rests_for_a_load_window_after_a_move() -> None:
    loop = Loop(hot(3), {"cooldownSeconds": 0})
    # It landed within 300 s, and the window has 900.
    await loop.rounds(4)
    assert len(loop.evicted) == 1
    await loop.rounds()
    assert len(loop.evicted) == 2


async def test_rule_6_the_limit_holds_in_the_interval_and_over_a_restart() -> None:
    loop = Loop(two_hot_nodes(), {"evictionLimits": {"total": 1}})
    await loop.rebalancer.turn()
    assert len(loop.evicted) == 1
    loop.restart()
    for _ in range(10):
        await loop.rebalancer.turn()
        loop.restart()
        loop.clock.advance(20)
    assert len(loop.evicted) == 1
    loop.clock.advance(100)
    await loop.rebalancer.turn()
    assert len(loop.evicted) == 2


async def test_rule_6_who_has_forgotten_everything_counts_the_evictions_that_the_cluster_shows() -> None:
    scene = two_hot_nodes()
    going = running("going", "n4", owner="going")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"
    going["status"]["conditions"].append(
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    )
    loop = Loop(scene.with_objects(going), {"evictionLimits": {"total": 1}})
    await loop.rounds()
    assert loop.evicted == []


@pytest.mark.parametrize("place", ["save", "evict"])
async def test_rule_6_a_process_that_is_killed_at_a_write_keeps_the_limit(place: str) -> None:
    loop = Loop(two_hot_nodes(), {"evictionLimits": {"total": 1}}, killed_at=place)
    with pytest.raises(Killed):
        await loop.rebalancer.turn()
    assert loop.evicted == []
    loop.restart()
    await loop.rebalancer.turn()
    assert len(loop.evicted) == (1 if place == "save" else 0)
    # What was written down, and not carried out, is forgotten after ten minutes.
    await loop.rounds(4)
    assert len(loop.evicted) == len(set(loop.evicted)) <= 2


async def test_rule_6_where_the_status_cannot_be_written_nothing_is_evicted() -> None:
    loop = Loop(hot(), unwritable="configmaps is forbidden")
    await loop.rounds(3)
    assert loop.world.evictions == []
    loop.world.unwritable = ""
    await loop.rounds()
    assert loop.evicted == ["default/hot-0"]


async def test_rule_7_a_move_that_missed_doubles_the_cooldown() -> None:
    landed = Loop(hot(3), {"cooldownSeconds": 1200})
    missed = Loop(hot(3), {"cooldownSeconds": 1200}, places_on=lambda move: "n0")
    for loop in (landed, missed):
        # It ended within 300 s, and has cooled down 1200 s later; where it missed, 2400 s later.
        await loop.rounds(6)
    assert (len(landed.evicted), len(missed.evicted)) == (2, 1)
    await missed.rounds(4)
    assert len(missed.evicted) == 2
    assert [outcome for _, outcome in missed.world.outcomes] == ["back", "back"]


async def test_rule_7_three_misses_in_a_row_end_automatic_until_somebody_has_looked() -> None:
    loop = Loop(hot(4), {"cooldownSeconds": 0}, places_on=lambda move: "n0")
    await loop.rounds(14)
    assert len(loop.evicted) == 3
    assert loop.world.condition == ("False", "PredictionFails")
    assert (loop.world.status["mode"], loop.world.status["effectiveMode"]) == ("Automatic", "Predictive")
    # It still plans, and asks.
    assert loop.world.evictions[-1] == ("default/hot-3", True)
    loop.restart()
    await loop.rounds(4)
    assert len(loop.evicted) == 3
    # The status is deleted: somebody has looked.
    loop.world.deleted = True
    loop.world.places_on = lambda move: move.target.name
    await loop.rounds(2)
    assert len(loop.evicted) == 4
    assert loop.world.condition == ("True", "Automatic")


@pytest.mark.parametrize(
    ("health", "reason"),
    [
        (SchedulerHealth(problem="the scheduler rolls out"), "SchedulerUnavailable"),
        (SchedulerHealth(running="a", planned="b"), "OtherConfiguration"),
    ],
)
async def test_rule_8_a_scheduler_that_is_not_itself_stops_the_round(health: SchedulerHealth, reason: str) -> None:
    loop = Loop(hot(), health=health)
    await loop.rounds(3)
    assert loop.world.evictions == []
    assert loop.world.condition == ("False", reason)
    loop.world.health = SchedulerHealth()
    await loop.rounds()
    assert loop.evicted == ["default/hot-0"]


async def test_rule_9_predictive_asks_and_changes_nothing() -> None:
    loop = Loop(hot(), mode=Mode.PREDICTIVE, answers=[(429, "the budget is used up")])
    before = json.dumps(loop.world.scene.objects)
    await loop.rounds(4)
    assert loop.world.evictions == [("default/hot-0", True)] * 4
    assert json.dumps(loop.world.scene.objects) == before
    assert loop.world.status["moves"] == []
    assert loop.world.condition == ("False", "Predictive")
    text = loop.metrics.expose().decode()
    assert 'secondary_scheduler_rebalance_dry_runs_total{answer="refused"} 1.0' in text
    assert 'secondary_scheduler_rebalance_dry_runs_total{answer="evicted"} 3.0' in text


# Modes, time, outcomes ------------------------------------------------------------------------------------------------
async def test_off_plans_nothing() -> None:
    loop = Loop(hot(), mode=Mode.OFF)
    await loop.rounds(3)
    assert loop.world.plans == []
    assert loop.world.evictions == []


async def test_the_interval_is_one_of_the_monotonic_clock() -> None:
    loop = Loop(hot(hot=50.0))
    await loop.rebalancer.turn()
    loop.clock.wall_seconds += 86_400
    await loop.rebalancer.turn()
    loop.clock.wall_seconds -= 2 * 86_400
    await loop.rebalancer.turn()
    assert len(loop.world.plans) == 1
    loop.clock.advance(300)
    await loop.rebalancer.turn()
    assert len(loop.world.plans) == 2


async def test_a_round_waits_for_a_node_that_has_nearly_rested_and_none_comes_early() -> None:
    """The replacement is placed some seconds after the round, so the load window ends some seconds after another."""
    second = []
    for window in (0.0, 900.0):
        loop, rounds = Loop(hot(3), window=window), [0.0]
        began = loop.clock.wall_seconds
        while len(loop.evicted) < 2:
            before = len(loop.world.plans)
            await loop.rebalancer.turn()
            if len(loop.world.plans) > before:
                rounds.append(loop.clock.wall_seconds - began)
            loop.clock.advance(5.0)
        second.append(rounds[-1])
        between = [after - before for before, after in pairwise(rounds[1:])]
        assert min(between) >= 300.0
        assert max(between) <= 375.0
    assert second == [1200.0, 910.0]


async def test_it_waits_for_the_next_round_and_looks_at_moves_meanwhile() -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise Killed
        loop.clock.advance(seconds)

    loop = Loop(hot(hot=50.0))
    with pytest.raises(Killed):
        await loop.rebalancer.run(wait)
    assert waits == [300.0, 300.0, 300.0]
    waits.clear()
    loop = Loop(hot(), answers=[(429, "evacuation triggered")])
    with pytest.raises(Killed):
        await loop.rebalancer.run(wait)
    assert waits == [FOLLOW_SECONDS] * 3


def sample(loop: Loop, name: str, **labels: str) -> float | None:
    return loop.metrics.registry.get_sample_value(f"secondary_scheduler_rebalance_{name}", labels)


def stopped(loop: Loop) -> set[str]:
    """The reasons for which the last round moved nothing, as the metrics show them."""
    (family,) = [each for each in loop.metrics.registry.collect() if each.name.endswith("_rebalance_stopped")]
    return {each.labels["reason"] for each in family.samples if each.value}


async def test_the_metrics_say_why_a_round_moved_nothing() -> None:
    loop = Loop(hot(), health=SchedulerHealth(problem="it rolls out", load_problem="prometheus is away"))
    assert stopped(loop) == set()
    await loop.rounds()
    assert stopped(loop) == {"loadNotFresh", "schedulerUnavailable"}
    loop.world.unreadable = "pods: no answer"
    await loop.rounds()
    assert stopped(loop) == {"clusterNotRead"}
    loop.world.unreadable, loop.world.health, loop.world.unwritable = "", SchedulerHealth(), "it is forbidden"
    await loop.rounds()
    assert stopped(loop) == {"statusNotWritten"}
    loop.world.unwritable = ""
    await loop.rounds()
    assert stopped(loop) == set()
    assert sample(loop, "active") == 1


async def test_the_metrics_know_the_last_round_over_a_restart_and_the_interval_from_the_start() -> None:
    loop = Loop(hot(), {"intervalSeconds": 120})
    assert (sample(loop, "interval_seconds"), sample(loop, "last_round_timestamp_seconds")) == (120, 0)
    assert sample(loop, "mode", mode="Automatic") == 1
    began = loop.clock.wall_seconds
    await loop.rounds()
    loop.metrics = RebalancerMetrics("test")
    loop.restart()
    assert sample(loop, "last_round_timestamp_seconds") == began


async def test_the_metrics_say_that_automatic_has_ended_by_itself_until_somebody_has_looked() -> None:
    loop = Loop(hot(4), {"cooldownSeconds": 0}, places_on=lambda move: "n0")
    await loop.rounds(14)
    assert stopped(loop) == {"predictionFails"}
    loop.metrics = RebalancerMetrics("test")
    loop.restart()
    assert stopped(loop) == {"predictionFails"}
    loop.world.deleted = True
    await loop.rounds(2)
    assert stopped(loop) == set()


async def test_the_metrics_say_that_the_limits_keep_pods_on_overloaded_nodes() -> None:
    loop = Loop(two_hot_nodes(), {"evictionLimits": {"total": 1}})
    await loop.rounds()
    assert len(loop.evicted) == 1
    assert sample(loop, "limited") == 1
    unlimited = Loop(two_hot_nodes())
    await unlimited.rounds()
    assert sample(unlimited, "limited") == 0


async def test_a_cluster_that_cannot_be_read_is_not_judged() -> None:
    loop = Loop(hot(), answers=[(429, "evacuation triggered")])
    await loop.rounds()
    loop.world.unreadable = "pods: has said nothing for 200 s"
    await loop.rounds(3)
    assert loop.world.outcomes == []
    assert len(loop.world.plans) == 1
    assert loop.world.condition == ("False", "ClusterNotRead")


async def test_a_replacement_on_another_node_is_elsewhere() -> None:
    scene = Scene(hot().objects, {"n0": 95.0, "n1": 20.0, "n2": 40.0, "n3": 60.0})
    loop = Loop(scene, places_on=lambda move: next(name for name in ("n3", "n1") if name not in move.best))
    await loop.rounds()
    assert [outcome for _, outcome in loop.world.outcomes] == ["elsewhere"]


async def test_any_of_the_equally_good_nodes_is_as_planned() -> None:
    loop = Loop(hot(), places_on=lambda move: next(name for name in move.best if name != move.target.name))
    await loop.rounds()
    assert [outcome for _, outcome in loop.world.outcomes] == ["landed"]


async def test_an_answer_that_was_lost_is_followed_like_one_that_came() -> None:
    loop = Loop(hot(), answers=[(504, "timeout")])
    await loop.rebalancer.turn()
    assert loop.world.outcomes == []
    loop.world.replace_pod("uid-hot-0")
    loop.restart()
    await loop.rebalancer.follow()
    assert loop.world.outcomes == [("default/hot-0", "landed")]


async def test_a_pod_of_another_revision_is_no_replacement() -> None:
    scene = hot().with_objects(replica_set("web", replicas=4))
    loop = Loop(scene)
    loop.world.places_on = lambda move: None
    await loop.rounds(seconds=10)
    loop.world.scene.objects[-1]["metadata"]["labels"]["pod-template-hash"] = "another"
    loop.world.placed(1, "n1")
    await loop.rebalancer.follow()
    assert loop.world.outcomes == []
