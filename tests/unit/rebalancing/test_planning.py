"""What a plan moves, and what it leaves alone, on whole clusters with the scheduler's own plugins."""

from __future__ import annotations

import math

import pytest

from scheduler.framework import LoadReading
from secondary_scheduler.rebalancing import Reason
from tests.support.rebalancing import Scene, metrics, moved, one_hot_node, owned, running
from tests.support.simulating import CONFIGURATION, node


def test_a_pod_of_the_overloaded_node_is_moved_to_where_the_scheduler_puts_it() -> None:
    plan = one_hot_node().plan()
    ((pod, source, target),) = moved(plan)
    assert (pod, source) == ("default/hot-0", "n0")
    assert target in {"n1", "n2", "n3"}
    (move,) = plan.moves
    assert move.gain.total >= move.minimum_gain > 0
    assert move.gain.plugins == {"TargetLoadPacking": move.gain.total}
    # 500m of 4 cores are 12.5 %.
    assert (move.source.before["cpu"], move.source.after["cpu"]) == (95.0, 82.5)
    assert (move.target.before["cpu"], move.target.after["cpu"]) == (20.0, 32.5)
    assert move.share.source == "requests"
    assert move.equally_good == 3


def test_one_hot_node_of_twenty_cools_down_with_as_few_moves_as_possible() -> None:
    scene = one_hot_node(20, pods=7)
    # 12.5 points each: two pods bring 95 below 80.
    plan = scene.plan(rounds=20)
    assert plan.after is not None
    assert plan.after.overloaded == ()
    assert len(plan.moves) == 2
    assert len({pod for pod, _, _ in moved(plan)}) == 2
    assert plan.before is not None
    assert plan.after.spread["cpu"] < plan.before.spread["cpu"]


def test_nothing_moves_where_every_node_is_overloaded() -> None:
    plan = one_hot_node(others=92.0).plan(rounds=20)
    assert plan.moves == []
    assert [refusal.reason for refusal in plan.stopped] == [Reason.NO_ROOM]
    assert plan.rounds == 1


def test_a_pod_that_would_overload_any_node_stays() -> None:
    scene = one_hot_node(3)
    # As measured it uses 2.8 of 4 cores, 70 %: no node at 20 % can take it below 80 %.
    plan = scene.with_objects(metrics("hot-0", cpu="2800m")).plan(rounds=20)
    assert plan.moves == []
    assert plan.counts[Reason.TARGET_OVERLOADED] == 1


def test_a_pod_for_which_its_own_node_is_the_best_stays() -> None:
    # TargetLoadPacking fills nodes up to 40 %; without the pod its own node has 12 %, and the others have more.
    scene = one_hot_node(3, hot=82.0, others=49.0).with_objects(metrics("hot-0", cpu="2800m"))
    plan = scene.plan(rounds=20)
    assert plan.moves == []
    assert plan.counts[Reason.STAYS] == 1


def test_ten_pods_and_one_hole_are_one_move() -> None:
    # Ten overloaded nodes; only `hole` has room, for the requests of one more pod.
    names = [f"n{number}" for number in range(10)]
    objects = [node(name) for name in [*names, "hole"]]
    objects += [running(f"p{number}", name, cpu="2100m", owner=f"o{number}") for number, name in enumerate(names)]
    objects += [running(f"q{number}", "elsewhere", cpu="2100m", owner=f"o{number}") for number in range(10)]
    scene = Scene(objects, {**dict.fromkeys(names, 95.0), "hole": 5.0})
    plan = scene.plan({"evictionLimits": {"total": 10}}, rounds=20)
    assert [target for _, _, target in moved(plan)] == ["hole"]
    # And within one round, where the first move is the reason.
    assert len(scene.plan({"evictionLimits": {"total": 10}}).moves) == 1


def test_on_stale_load_nothing_moves_and_the_plan_says_why() -> None:
    scene = one_hot_node()
    scene.measured_at = dict.fromkeys(scene.cpu, scene.now - 600)
    plan = scene.plan()
    assert plan.moves == []
    (refusal,) = plan.stopped
    assert refusal.reason is Reason.NO_LOAD
    assert plan.counts[Reason.NO_LOAD] + plan.counts[Reason.NODE_NOT_OVERLOADED] == plan.pods


def test_without_any_load_nothing_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = one_hot_node()
    monkeypatch.setattr(Scene, "_load", lambda self: LoadReading({}, window_end=float(self.now)))
    plan = scene.plan()
    assert plan.moves == []
    assert [refusal.reason for refusal in plan.stopped] == [Reason.NO_LOAD]


def test_with_the_clock_off_by_ten_minutes_nothing_moves() -> None:
    scene = one_hot_node()
    scene.measured_at = dict.fromkeys(scene.cpu, float(scene.now))
    assert scene.plan().moves
    scene.now += 600
    assert scene.plan().moves == []


def test_the_pod_that_relieves_the_node_alone_is_taken_before_smaller_and_larger_ones() -> None:
    objects = [node("n0"), node("n1"), node("n2")]
    for name, cpu in (("small", "100m"), ("enough", "700m"), ("large", "1500m")):
        objects += [running(name, "n0", cpu=cpu, owner=name), running(f"{name}-2", "n1", cpu=cpu, owner=name)]
    # 15 points too many: 700m are 17.5 %, 100m are 2.5 %.
    plan = Scene(objects, {"n0": 95.0, "n1": 30.0, "n2": 5.0}).plan()
    assert [pod for pod, _, _ in moved(plan)] == ["default/enough"]
    assert plan.moves[0].forbids_next.startswith("its node is not overloaded")


def test_what_was_measured_counts_before_what_is_requested() -> None:
    scene = one_hot_node().with_objects(metrics("hot-0", cpu="1200m"))
    (move,) = scene.plan().moves
    assert (move.share.source, move.share.cpu) == ("PodMetrics", 1200.0)
    assert move.source.after["cpu"] == pytest.approx(65.0)


def test_an_old_measurement_of_a_pod_does_not_count() -> None:
    scene = one_hot_node().with_objects(metrics("hot-0", cpu="1200m", at="2026-01-01T01:00:00Z"))
    (move,) = scene.plan().moves
    assert (move.share.source, move.share.cpu) == ("requests", 500.0)


def test_a_pod_of_which_nobody_knows_what_it_uses_stays() -> None:
    scene = one_hot_node()
    scene.objects = [item for item in scene.objects if item["metadata"]["name"] != "hot-0"]
    plan = scene.with_objects(running("hot-0", "n0", cpu=None)).plan()
    assert plan.moves == []
    assert plan.counts[Reason.NO_SHARE] == 1


def test_a_share_is_never_more_than_the_load_of_the_node() -> None:
    scene = one_hot_node().with_objects(metrics("hot-0", cpu="40"))
    plan = scene.plan()
    assert plan.moves == []
    assert plan.counts[Reason.TARGET_OVERLOADED] == 1


def test_later_moves_see_the_earlier_ones() -> None:
    # Two overloaded nodes, and one with room; `full` has none.
    objects = [node("a"), node("b"), node("empty"), node("full")]
    objects += [running("p", "a", cpu="1500m", owner="p"), running("q", "b", cpu="1500m", owner="q")]
    objects += [running("p2", "full", cpu="1500m", owner="p"), running("q2", "full", cpu="1500m", owner="q")]
    scene = Scene(objects, {"a": 95.0, "b": 90.0, "empty": 5.0, "full": 70.0})
    assert moved(scene.plan()) == [("default/p", "a", "empty")]
    scene.cpu["a"] = 70.0
    assert moved(scene.plan()) == [("default/q", "b", "empty")]


def test_memory_counts_as_cpu_does() -> None:
    scene = one_hot_node()
    scene.cpu = dict.fromkeys(scene.cpu, 20.0)
    scene.memory = {name: 95.0 if name == "n0" else 30.0 for name in scene.cpu}
    scene.configuration = CONFIGURATION
    # The other pod makes n0 the fuller node, by requests, also without hot-0.
    scene.objects += [metrics("hot-0", cpu="100m", memory="2Gi"), running("other", "n0", cpu="2", owner="other")]
    plan = scene.plan({"minimumGain": 1})
    assert [pod for pod, _, _ in moved(plan)] == ["default/hot-0"]
    assert plan.moves[0].source.after["memory"] == pytest.approx(70.0)


def test_by_deviation_a_node_is_judged_by_the_mean_of_all() -> None:
    settings = {
        "useDeviationThresholds": True,
        "thresholds": {"cpu": 10},
        "targetThresholds": {"cpu": 20},
    }
    scene = one_hot_node(hot=60.0, others=20.0)
    assert scene.plan().moves == []
    plan = scene.plan(settings)
    assert plan.before is not None
    # The mean is 30.
    assert (plan.before.limits.low["cpu"], plan.before.limits.high["cpu"]) == (20.0, 50.0)
    # `others` are at 20: none is below.
    assert [refusal.reason for refusal in plan.stopped] == [Reason.NO_ROOM]
    assert moved(one_hot_node(5, hot=60.0, others=20.0).plan(settings | {"thresholds": {"cpu": 5}}))


def test_a_pod_stays_where_the_scheduler_would_choose_another_node_while_it_still_runs() -> None:
    # No two of these pods in one rack. Without hot-0, n1 in its own rack is the best by far; but as long as it runs,
    # its rack is taken, and only n2 is left.
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "rack"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [node("n0"), node("n1"), node("n2"), node("n3")]
    for item, rack in zip(objects, ("a", "a", "b", "c"), strict=True):
        item["metadata"]["labels"]["rack"] = rack
    objects += [running("hot-0", "n0", affinity=apart), running("cool", "n3", affinity=apart)]
    scene = Scene(objects, {"n0": 95.0, "n1": 20.0, "n2": 60.0, "n3": 20.0})
    plan = scene.plan()
    assert plan.moves == []
    assert plan.counts[Reason.UNSURE] == 1
    # A StatefulSet waits until it has gone.
    for item in scene.objects[4:]:
        item["metadata"]["ownerReferences"] = owned("StatefulSet", "web")
    assert moved(scene.plan()) == [("default/hot-0", "n0", "n1")]


def test_a_node_that_no_longer_accepts_the_pod_is_left_whatever_the_scores() -> None:
    scene = one_hot_node().change(
        "n0", lambda item: item["spec"].update(taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])
    )
    (move,) = scene.plan({"minimumGain": 100_000}).moves
    assert move.gain.refused_by == "TaintToleration"


def test_every_pod_is_accounted_for() -> None:
    scene = one_hot_node(6, pods=5).with_objects(running("other", "n2", schedulerName="default-scheduler"))
    plan = scene.plan()
    assert len(plan.moves) + sum(plan.counts.values()) == plan.pods == 11


def test_a_plan_leaves_the_cluster_as_it_was_where_it_moves_nothing() -> None:
    scene = one_hot_node()
    ready, _ = scene.ready()
    before = [(pod.uid, pod.node_name) for pod in ready.cluster.state.pods()]
    plan = scene.plan({"minimumGain": 100_000})
    assert plan.counts[Reason.SMALL_GAIN] == 1
    assert [(pod.uid, pod.node_name) for pod in ready.cluster.state.pods()] == before
    assert not math.isnan(sum(plan.before.spread.values() if plan.before else ()))
