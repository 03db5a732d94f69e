"""Each of the nine safety rules, with what breaks it. The plan would move a pod if the rule did not forbid it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.config import read_rebalance_settings
from scheduler.framework import PodInfo
from scheduler.helpers import reduce_node, reduce_pod
from scheduler.kube.model import decode_node, decode_pod
from secondary_scheduler.balance import NodeFigures
from secondary_scheduler.rebalancing import History, MoveOutcome, PastMove, Reason, SchedulerHealth
from secondary_scheduler.rebalancing.loads import ClusterLoads, PodShare
from secondary_scheduler.rebalancing.rules.evictions import EvictionReply, answer_of, eviction_of
from secondary_scheduler.rebalancing.rules.moves import effect_on_all, effect_on_pair
from secondary_scheduler.rebalancing.rules.pace import MoveBudget
from tests.support.rebalancing import NOW, START, Object, Scene, moved, one_hot_node, owned, replica_set, running
from tests.support.simulating import node

Change = Callable[[Object], object]
WEB = ("ReplicaSet", "default", "web")


def metadata(**fields: Any) -> Change:
    return lambda item: item["metadata"].update(fields)


def spec(**fields: Any) -> Change:
    return lambda item: item["spec"].update(fields)


def status(**fields: Any) -> Change:
    return lambda item: item["status"].update(fields)


def labels(**fields: str) -> Change:
    return lambda item: item["metadata"]["labels"].update(
        {key.replace("__", "/"): text for key, text in fields.items()}
    )


def annotations(**fields: str) -> Change:
    return metadata(annotations={"descheduler.alpha.kubernetes.io/evict": "true", **fields})


def refused(scene: Scene, settings: dict[str, Any] | None = None, **more: Any) -> dict[Reason, int]:
    """The reasons why nothing is moved, apart from pods that nobody wants to move."""
    plan = scene.plan(settings, **more)
    assert plan.moves == []
    return {reason: count for reason, count in plan.counts.items() if reason is not Reason.NODE_NOT_OVERLOADED}


def past(
    name: str, *, outcome: MoveOutcome | None, begun: float = NOW - 100, ended: float = NOW - 50, **more: Any
) -> PastMove:
    move = PastMove(WEB, f"default/{name}", f"uid-{name}", "n8", "n9", begun, ended, outcome)
    return replace(move, **more)


def history(*moves: PastMove, overloaded: int = 3) -> History:
    return History(overloaded={"n0": overloaded}, moves=moves)


def test_the_pod_of_these_tests_is_moved_unless_a_rule_forbids_it() -> None:
    assert moved(one_hot_node().plan())
    assert moved(one_hot_node().plan(history=history(), health=SchedulerHealth()))


# Rule 1 ---------------------------------------------------------------------------------------------------------------
ANYTHING = {
    "evictLocalStorage": True,
    "evictJobs": True,
    "minPodAgeSeconds": 0,
    "minReplicas": 1,
    "minimumGain": 1,
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (spec(schedulerName="default-scheduler"), Reason.OTHER_SCHEDULER),
        (status(phase="Pending"), Reason.NOT_READY),
        (status(conditions=[{"type": "Ready", "status": "False"}]), Reason.NOT_READY),
        (metadata(deletionTimestamp="2026-01-01T01:00:00Z"), Reason.TERMINATING),
        (metadata(ownerReferences=[]), Reason.NO_REPLACEMENT),
        (metadata(ownerReferences=owned("DaemonSet", "web")), Reason.NO_REPLACEMENT),
        (metadata(ownerReferences=owned("Node", "n0")), Reason.NO_REPLACEMENT),
        (metadata(ownerReferences=owned("VirtualMachineInstance", "web")), Reason.NO_REPLACEMENT),
        (labels(**{"scheduling.x-k8s.io__pod-group": "gang"}), Reason.GANG),
        (spec(schedulingGates=[{"name": "wait"}]), Reason.GATED),
        (labels(**{"kueue.x-k8s.io__managed": "true"}), Reason.QUEUED),
        (annotations(**{"kueue.x-k8s.io/role-hash": "0a1b2c"}), Reason.QUEUED),
        (annotations(**{"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}), Reason.QUEUED),
        (spec(priority=2_000_000_000), Reason.CRITICAL),
        (spec(priorityClassName="system-node-critical"), Reason.CRITICAL),
        (metadata(namespace="kube-system"), Reason.SYSTEM_NAMESPACE),
        (metadata(namespace="openshift-monitoring"), Reason.SYSTEM_NAMESPACE),
        (metadata(namespace="ours"), Reason.SYSTEM_NAMESPACE),
    ],
)
def test_rule_1_no_setting_and_no_annotation_moves_a_pod_that_must_not_be(change: Change, reason: Reason) -> None:
    scene = one_hot_node().change("hot-0", annotations()).change("hot-0", change)
    assert refused(scene, ANYTHING, own_namespaces=["ours"]) == {reason: 1}


def test_rule_1_a_controller_that_does_not_replace_the_pod_is_none() -> None:
    scene = one_hot_node()
    assert moved(scene.with_objects(replica_set("web", replicas=4)).plan())
    none_wanted = scene.with_objects(replica_set("web", replicas=0))
    assert refused(none_wanted) == {Reason.NO_REPLACEMENT: 1}
    another = scene.with_objects(replica_set("web", replicas=4, uid="of-another"))
    assert refused(another) == {Reason.NO_REPLACEMENT: 1}


def launcher(name: str, on: str | None, *, machine: str = "db", **spec: Any) -> Object:
    """A pod in which KubeVirt runs a virtual machine; pending without a node."""
    item = running(name, on or "", owner=machine, **spec)
    owner = owned("VirtualMachineInstance", machine)
    for reference in owner:
        reference["apiVersion"] = "kubevirt.io/v1"
    own = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": f"uid-{machine}", "vm.kubevirt.io/name": machine}
    item["metadata"] |= {"ownerReferences": owner, "labels": own}
    if on is None:
        del item["spec"]["nodeName"]
        item["status"] = {"phase": "Pending"}
    return item


@pytest.mark.parametrize("protected", [False, True], ids=["no migration strategy", "LiveMigrate"])
def test_rule_1_a_virtual_machine_stays_whatever_its_migration_strategy_and_annotations(protected: bool) -> None:
    """Without a strategy an eviction would shut the guest down. With one KubeVirt keeps a budget with nothing left."""
    objects = [node(name) for name in ("n0", "n1", "n2")]
    objects += [launcher("vm-0", "n0"), launcher("vm-1", "n1", machine="other")]
    scene = Scene(objects, {"n0": 95.0, "n1": 20.0, "n2": 20.0}).change("vm-0", annotations())
    if protected:
        guard = budget("kubevirt-disruption-budget-db", 0)
        guard["spec"]["selector"]["matchLabels"] = {"kubevirt.io/created-by": "uid-db"}
        scene = scene.with_objects(guard)
    assert refused(scene, ANYTHING) == {Reason.NO_REPLACEMENT: 1}


# What settings and annotations say ------------------------------------------------------------------------------------
def volume(**source: Any) -> Change:
    return spec(volumes=[{"name": "data", **source}])


@pytest.mark.parametrize(
    ("change", "settings", "reason", "allowing"),
    [
        (volume(emptyDir={}), {}, Reason.LOCAL_STORAGE, {"evictLocalStorage": True}),
        (volume(hostPath={"path": "/data"}), {}, Reason.LOCAL_STORAGE, {"evictLocalStorage": True}),
        (spec(priority=10), {"priorityThreshold": 10}, Reason.PRIORITY, {"priorityThreshold": 11}),
        (spec(), {"podSelector": {"matchLabels": {"app": "x"}}}, Reason.NOT_SELECTED, {"podSelector": {}}),
        (spec(), {"namespaces": {"include": ["shop"]}}, Reason.NOT_SELECTED, {"namespaces": {"include": ["default"]}}),
        (spec(), {"namespaces": {"exclude": ["default"]}}, Reason.NOT_SELECTED, {"namespaces": {"exclude": ["shop"]}}),
        (status(startTime="2026-01-01T01:50:00Z"), {}, Reason.TOO_YOUNG, {"minPodAgeSeconds": 600}),
        (spec(), {"minReplicas": 5}, Reason.FEW_REPLICAS, {"minReplicas": 4}),
        (spec(), {"evictPodsWithoutPDB": False}, Reason.NO_BUDGET, {"evictPodsWithoutPDB": True}),
    ],
)
def test_a_setting_protects_pods_and_lets_them_go(
    change: Change, settings: dict[str, Any], reason: Reason, allowing: dict[str, Any]
) -> None:
    scene = one_hot_node().change("hot-0", change)
    assert refused(scene, settings) == {reason: 1}
    assert moved(scene.plan(allowing))


def test_pods_of_jobs_are_moved_only_if_that_is_asked_for() -> None:
    scene = one_hot_node()
    for item in scene.objects:
        if item["kind"] == "Pod":
            item["metadata"]["ownerReferences"] = owned("Job", "web")
    assert refused(scene) == {Reason.JOB: 1}
    assert moved(scene.plan({"evictJobs": True}))


@pytest.mark.parametrize(
    "annotation",
    [
        {"secondary-scheduler.io/rebalance": "false"},
        {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""},
        {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        {"karpenter.sh/do-not-disrupt": "true"},
        {"karpenter.sh/do-not-disrupt": "3h"},
        {"karpenter.sh/do-not-disrupt": "nonsense"},
    ],
)
def test_annotations_of_others_and_our_own_are_honoured(annotation: dict[str, str]) -> None:
    assert refused(one_hot_node().change("hot-0", annotations(**annotation))) == {Reason.OPTED_OUT: 1}


@pytest.mark.parametrize(
    "annotation",
    [
        {"karpenter.sh/do-not-disrupt": "1h"},
        {"karpenter.sh/do-not-disrupt": "false"},
        {"secondary-scheduler.io/rebalance": "true"},
    ],
)
def test_annotations_that_have_no_say_any_more_protect_nothing(annotation: dict[str, str]) -> None:
    assert moved(one_hot_node().change("hot-0", annotations(**annotation)).plan())


def test_a_namespace_opts_its_pods_out() -> None:
    meta = {"name": "default", "annotations": {"secondary-scheduler.io/rebalance": "false"}}
    scene = one_hot_node().with_objects({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    assert refused(scene) == {Reason.OPTED_OUT: 1}


def test_persistent_volumes_stay_unless_an_annotation_lets_them_go() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "data"}}
    scene = one_hot_node().change("hot-0", volume(**claim))
    assert refused(scene) == {Reason.VOLUMES: 1}
    # The scheduler is asked now, and finds no such claim.
    assert refused(scene.change("hot-0", annotations())) == {Reason.FITS_NOWHERE: 1}


# Rule 2 ---------------------------------------------------------------------------------------------------------------
def test_rule_2_a_node_must_be_overloaded_for_several_rounds_in_a_row() -> None:
    assert refused(one_hot_node(), history=history(overloaded=1)) == {Reason.NOT_LONG_ENOUGH: 1}
    # This round is the third.
    assert moved(one_hot_node().plan(history=history(overloaded=2)))


def test_rule_2_rounds_in_between_begin_the_count_again() -> None:
    counted = History().after_round(["n0"]).after_round(["n0"]).after_round(["n1"]).after_round(["n0"])
    assert counted.overloaded == {"n0": 1}


def test_rule_2_a_small_gain_is_no_reason() -> None:
    scene = one_hot_node()
    (move,) = scene.plan().moves
    assert moved(scene.plan({"minimumGain": move.gain.total}))
    assert refused(scene, {"minimumGain": move.gain.total + 1}) == {Reason.SMALL_GAIN: 1}


def test_rule_2_the_target_stays_below_its_threshold() -> None:
    scene = one_hot_node(others=49.0)
    assert moved(scene.plan({"targetThresholds": {"cpu": 62, "memory": 90}}))
    assert refused(scene, {"targetThresholds": {"cpu": 61, "memory": 90}}) == {Reason.TARGET_OVERLOADED: 1}


def loads(cpu: dict[str, tuple[str, float]], high: float) -> ClusterLoads:
    """Loads of nodes by name, each with its capacity."""
    infos = {}
    for name, (capacity, _) in cpu.items():
        infos[name] = reduce_node(decode_node(msgspec.json.encode(node(name, cpu=capacity))))
    values = np.array([load for _, load in cpu.values()])
    unknown = np.full(len(values), np.nan)
    figures = NodeFigures(tuple(cpu), unknown, unknown, unknown, values, unknown)
    settings = read_rebalance_settings({"thresholds": {"cpu": 10}, "targetThresholds": {"cpu": high}})
    return ClusterLoads(figures, infos, settings)


def share(cpu: float) -> PodShare:
    return PodShare(cpu, 0.0, "requests")


def test_rule_2_the_spread_between_both_nodes_shrinks() -> None:
    # 300m are 30 points of n0, and 5 of n1.
    pair = loads({"n0": ("1", 81.0), "n1": ("6", 75.0)}, high=80.0)
    refusal = effect_on_pair(pair, share(300), "n0", "n1")
    assert refusal is not None
    assert refusal.reason is Reason.NO_BETTER_SPREAD
    assert refusal.detail == "cpu of n0 and n1 apart by 6 → 29"
    assert effect_on_pair(pair, share(30), "n0", "n1") is None


def test_rule_2_the_spread_of_all_nodes_shrinks() -> None:
    # One point of n0 is thirty of n1: closer to each other, and further from the twenty that are alike.
    alike = {f"n{number}": ("1", 40.0) for number in range(1, 21)}
    everyone = loads({"n0": ("30", 90.0), **alike}, high=80.0)
    assert effect_on_pair(everyone, share(300), "n0", "n1") is None
    refusal = effect_on_all(everyone, share(300), "n0", "n1")
    assert refusal is not None
    assert refusal.reason is Reason.NO_BETTER_SPREAD
    assert effect_on_all(everyone, share(3), "n0", "n1") is None


def test_rule_2_every_node_that_the_scheduler_may_choose_must_be_good() -> None:
    # n1 and n2 are equal to the scheduler, which reads CPU only; n2 is full of memory.
    scene = one_hot_node(3)
    scene.memory = {"n0": 50.0, "n1": 50.0, "n2": 50.0}
    assert moved(scene.plan())
    scene.memory["n2"] = 89.5
    assert refused(scene) == {Reason.TARGET_OVERLOADED: 1}


@pytest.mark.parametrize(
    "taint", ["ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted"]
)
def test_rule_2_nodes_that_an_autoscaler_removes_neither_give_nor_take(taint: str) -> None:
    taints = [{"key": taint, "effect": "PreferNoSchedule"}]
    assert refused(one_hot_node(2).change("n0", spec(taints=taints))) == {Reason.NODE_IS_LEFT_ALONE: 1}
    scene = one_hot_node(2).change("n1", spec(taints=taints))
    assert set(refused(scene)) == {Reason.NO_ROOM}


def test_rule_2_a_cordoned_node_is_left_to_who_drains_it() -> None:
    assert refused(one_hot_node(2).change("n0", spec(unschedulable=True))) == {Reason.NODE_IS_LEFT_ALONE: 1}


def test_rule_2_a_node_that_has_just_come_is_no_reason_to_spread() -> None:
    young = one_hot_node(2).change("n1", metadata(creationTimestamp="2026-01-01T01:50:00Z"))
    assert set(refused(young)) == {Reason.NO_ROOM}
    assert moved(one_hot_node(2).change("n1", metadata(creationTimestamp="2026-01-01T01:40:00Z")).plan())


# Rule 3 ---------------------------------------------------------------------------------------------------------------
def test_rule_3_fresh_load_on_four_of_five_nodes_or_nothing() -> None:
    scene = one_hot_node(10)
    del scene.cpu["n9"], scene.cpu["n8"]
    assert moved(scene.plan())
    del scene.cpu["n7"]
    assert set(refused(scene)) == {Reason.LOAD_NOT_FRESH, Reason.STALE_LOAD}


def test_rule_3_nothing_moves_to_a_node_without_fresh_load() -> None:
    # An estimate makes the silent node the best of all to the scheduler.
    scene = one_hot_node(10)
    scene.objects = [item for item in scene.objects if item["metadata"]["name"] != "cool-n9"]
    scene.measured_at = {"n9": NOW - 3600}
    plan = scene.plan()
    assert all(target != "n9" for _, _, target in moved(plan))


def test_rule_3_what_the_scheduler_says_of_its_load_counts() -> None:
    unwell = SchedulerHealth(load_problem="LoadDataFresh is False: Prometheus does not answer")
    assert set(refused(one_hot_node(), health=unwell)) == {Reason.LOAD_NOT_FRESH}


# Rules 4 and 9 --------------------------------------------------------------------------------------------------------
def info(**fields: Any) -> PodInfo:
    item = running("hot-0", "n0")
    item["metadata"].update(fields)
    return reduce_pod(decode_pod(msgspec.json.encode(item)))


def test_rule_4_an_eviction_names_the_uid_of_the_pod_that_was_judged() -> None:
    options: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "uid-hot-0"},
    }
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "hot-0", "namespace": "default"},
        "deleteOptions": options,
    }
    assert eviction_of(info(), dry_run=False) == body
    options["dryRun"] = ["All"]
    assert eviction_of(info(), dry_run=True) == body


def test_rule_4_a_pod_without_a_uid_is_not_evicted_by_name() -> None:
    with pytest.raises(ValueError, match="no UID"):
        eviction_of(info(uid=""), dry_run=False)


@pytest.mark.parametrize(
    ("code", "message", "answer"),
    [
        (201, "", EvictionReply.EVICTED),
        (429, "Cannot evict pod as it would violate the pod's disruption budget.", EvictionReply.REFUSED),
        (
            429,
            'admission webhook "virt" denied the request: Eviction triggered evacuation of VMI',
            EvictionReply.EVACUATING,
        ),
        (
            500,
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            EvictionReply.REFUSED,
        ),
        (409, "the UID in the precondition does not match", EvictionReply.GONE),
        (404, "not found", EvictionReply.GONE),
        (403, "forbidden", EvictionReply.REFUSED),
        (503, "apiserver is shutting down", EvictionReply.FAILED),
    ],
)
def test_rule_4_what_an_answer_means(code: int, message: str, answer: EvictionReply) -> None:
    assert answer_of(code, message) is answer


def budget(name: str, allowed: int, app: str = "web") -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def test_rule_4_a_budget_with_nothing_left_and_two_budgets_forbid_it() -> None:
    scene = one_hot_node()
    assert refused(scene.with_objects(budget("b", 0))) == {Reason.BUDGET: 1}
    assert refused(scene.with_objects(budget("a", 5), budget("b", 5))) == {Reason.BUDGET: 1}
    assert moved(
        scene.with_objects(budget("b", 1), budget("other", 0, app="other")).plan({"evictPodsWithoutPDB": False})
    )


def test_rule_4_a_plan_counts_what_it_uses_of_a_budget() -> None:
    objects = [node(name) for name in ("a", "b", "n1", "n2")]
    objects += [running("p", "a", owner="p"), running("q", "b", owner="q")]
    objects += [running("p2", "n1", owner="p"), running("q2", "n1", owner="q")]
    for item in objects[4:]:
        item["metadata"]["labels"]["app"] = "both"
    scene = Scene(objects, {"a": 95.0, "b": 94.0, "n1": 30.0, "n2": 20.0})
    assert len(scene.with_objects(budget("b", 2, app="both")).plan({"minimumGain": 1}).moves) == 2
    plan = scene.with_objects(budget("b", 1, app="both")).plan({"minimumGain": 1})
    assert [pod for pod, _, _ in moved(plan)] == ["default/p"]
    assert plan.counts[Reason.BUDGET] == 1


def test_rule_9_predictive_asks_by_dry_run() -> None:
    assert eviction_of(info(), dry_run=True)["deleteOptions"]["dryRun"] == ["All"]
    assert eviction_of(info(), dry_run=True)["deleteOptions"]["preconditions"] == {"uid": "uid-hot-0"}


# Rule 5 ---------------------------------------------------------------------------------------------------------------
def test_rule_5_one_move_in_flight_per_workload() -> None:
    moving = past("other", outcome=None)
    assert refused(one_hot_node(), history=history(moving)) == {Reason.IN_FLIGHT: 1}


@pytest.mark.parametrize("scheduler", ["default-scheduler", None], ids=["of another scheduler", "ours"])
def test_rule_5_nothing_leaves_a_node_from_which_a_virtual_machine_migrates(scheduler: str | None) -> None:
    named = {"schedulerName": scheduler} if scheduler else {}
    scene = one_hot_node().with_objects(launcher("vm-source", "n0", **named))
    assert [source for _, source, _ in moved(scene.plan())] == ["n0"]
    plan = scene.with_objects(launcher("vm-target", "n1", **named)).plan()
    assert plan.moves == []
    assert plan.counts[Reason.MACHINE_MOVES] == 2
    ((_, detail), *_) = plan.stays[Reason.MACHINE_MOVES].examples
    assert detail == "n0: default/db"


def test_rule_5_nothing_leaves_a_node_while_the_migrations_target_has_no_node_yet() -> None:
    scene = one_hot_node(pods=20).with_objects(launcher("vm-source", "n0"), launcher("vm-target", None))
    assert scene.plan().counts[Reason.MACHINE_MOVES] == 21


def test_rule_5_nothing_comes_to_a_node_to_which_a_virtual_machine_migrates() -> None:
    scene = one_hot_node(2).with_objects(node("n9"), launcher("vm-source", "n9"))
    scene.cpu["n9"] = 70.0
    assert moved(scene.plan()) == [("default/hot-0", "n0", "n1")]
    assert refused(scene.with_objects(launcher("vm-target", "n1")))[Reason.MACHINE_MOVES] == 1


def test_rule_5_two_virtual_machines_are_no_migration() -> None:
    scene = one_hot_node().with_objects(launcher("vm-0", "n0"), launcher("vm-1", "n1", machine="other"))
    assert moved(scene.plan())


def test_rule_5_a_plan_moves_one_pod_per_workload_and_round() -> None:
    objects = [node(name) for name in ("a", "b", "n1", "n2")]
    objects += [running("p", "a"), running("q", "b"), running("r", "n1")]
    scene = Scene(objects, {"a": 95.0, "b": 94.0, "n1": 20.0, "n2": 20.0})
    plan = scene.plan()
    assert [pod for pod, _, _ in moved(plan)] == ["default/p"]
    assert plan.counts[Reason.IN_FLIGHT] == 1


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (replica_set("web", replicas=5), "4 of its 5 pods"),
        (replica_set("web", replicas=4, ready=3), "3 of its 4 pods are ready"),
        (replica_set("web", replicas=4, generation=2), "newest version"),
    ],
)
def test_rule_5_a_workload_that_scales_or_rolls_out_is_left_alone(workload: Object, words: str) -> None:
    if words.startswith("4 of"):
        workload["status"]["replicas"] = 4
    plan = one_hot_node().with_objects(workload).plan()
    assert plan.moves == []
    ((_, detail),) = plan.stays[Reason.UNSETTLED].examples
    assert words in detail


def test_rule_5_a_deployment_is_judged_as_a_whole() -> None:
    def deployment(updated: int) -> Object:
        item = replica_set("shop", replicas=4)
        item["kind"] = "Deployment"
        item["status"]["updatedReplicas"] = updated
        return item

    owner = replica_set("web", replicas=4, ownerReferences=owned("Deployment", "shop"))
    scene = one_hot_node().with_objects(owner)
    assert moved(scene.with_objects(deployment(4)).plan())
    assert refused(scene.with_objects(deployment(3))) == {Reason.UNSETTLED: 1}


def test_rule_5_pods_of_two_revisions_are_a_roll_out_whatever_the_objects_say() -> None:
    scene = one_hot_node().change("hot-0", labels(**{"pod-template-hash": "old"}))
    scene = scene.change("cool-n1", labels(**{"pod-template-hash": "new"}))
    assert refused(scene) == {Reason.UNSETTLED: 1}


@pytest.mark.parametrize("change", [status(phase="Pending"), metadata(deletionTimestamp="2026-01-01T01:00:00Z")])
def test_rule_5_an_unready_or_ending_pod_of_the_workload_forbids_it(change: Change) -> None:
    assert refused(one_hot_node().change("cool-n1", change)) == {Reason.UNSETTLED: 1}


def test_rule_5_a_node_settles_for_a_load_window_after_its_move_was_placed() -> None:
    def of_node(ended: float, outcome: MoveOutcome | None = MoveOutcome.LANDED) -> History:
        return history(
            past("x", outcome=outcome, ended=ended, source="n7", target="n0", workload=("ReplicaSet", "a", "b"))
        )

    assert refused(one_hot_node(), history=of_node(NOW - 899)) == {Reason.NODE_SETTLING: 1}
    assert refused(one_hot_node(), history=of_node(NOW, None)) == {Reason.NODE_SETTLING: 1}
    assert moved(one_hot_node().plan(history=of_node(NOW - 900)))


# Rule 6 ---------------------------------------------------------------------------------------------------------------
def several(count: int) -> Scene:
    """So many overloaded nodes with a workload each, and as many others."""
    objects = [node(f"{side}{number}") for side in ("hot", "cool") for number in range(count)]
    for number in range(count):
        objects += [running(f"p{number}", f"hot{number}", owner=f"o{number}")]
        objects += [running(f"q{number}", f"cool{number}", owner=f"o{number}")]
    loads = {f"hot{number}": 95.0 for number in range(count)} | {f"cool{number}": 10.0 for number in range(count)}
    return Scene(objects, loads)


def test_rule_6_no_more_moves_than_the_interval_allows() -> None:
    assert len(several(4).plan({"evictionLimits": {"total": 2}, "minimumGain": 1}).moves) == 2
    plan = several(4).plan({"evictionLimits": {"namespace": 1}, "minimumGain": 1})
    assert len(plan.moves) == 1
    assert plan.counts[Reason.LIMIT] == 3


@pytest.mark.parametrize("limits", [{"total": 0}, {"node": 0}, {"namespace": 0}, {"workload": 0}, {"workload": "0%"}])
def test_rule_6_each_limit_forbids_a_move(limits: dict[str, Any]) -> None:
    assert refused(one_hot_node(), {"evictionLimits": limits}) == {Reason.LIMIT: 1}


def test_rule_6_moves_of_the_last_interval_count_after_a_restart() -> None:
    settings = {"evictionLimits": {"total": 1}}
    other = past("x", outcome=MoveOutcome.LANDED, begun=NOW - 299, workload=("ReplicaSet", "a", "b"))
    assert refused(one_hot_node(), settings, history=history(other)) == {Reason.LIMIT: 1}
    assert moved(one_hot_node().plan(settings, history=history(replace(other, begun_at=NOW - 301))))


def test_rule_6_evictions_that_the_cluster_shows_count_though_nobody_remembers_them() -> None:
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    scene = one_hot_node().with_objects(running("gone", "n2", owner="x"))
    scene = scene.change("gone", lambda item: item["status"]["conditions"].append(evicted))
    assert refused(scene, {"evictionLimits": {"total": 1}}) == {Reason.LIMIT: 1}
    assert moved(scene.plan({"evictionLimits": {"total": 2}}))


def test_rule_6_the_budget_is_taken_before_the_call() -> None:
    limits = MoveBudget(read_rebalance_settings({"evictionLimits": {"total": 1}}))
    assert not limits.exhausted
    limits.take(past("x", outcome=None))
    assert limits.exhausted


# Rule 7 ---------------------------------------------------------------------------------------------------------------
def test_rule_7_a_workload_is_left_alone_for_a_while_and_longer_each_time_a_move_missed() -> None:
    def refused_at(seconds: float, *outcomes: MoveOutcome) -> bool:
        moves = [
            past(f"x{index}", outcome=outcome, begun=NOW - seconds - 1, ended=NOW - seconds)
            for index, outcome in enumerate(outcomes)
        ]
        plan = one_hot_node().plan(history=history(*moves))
        assert bool(plan.moves) != bool(plan.counts[Reason.COOLDOWN])
        return not plan.moves

    assert refused_at(899, MoveOutcome.LANDED)
    assert not refused_at(901, MoveOutcome.LANDED)
    assert refused_at(1799, MoveOutcome.BACK)
    assert not refused_at(1801, MoveOutcome.BACK)
    assert refused_at(3599, MoveOutcome.BACK, MoveOutcome.ELSEWHERE)
    assert not refused_at(3601, MoveOutcome.BACK, MoveOutcome.ELSEWHERE)


def test_rule_7_the_cooldown_ends_at_its_longest() -> None:
    moves = tuple(past(f"x{index}", outcome=MoveOutcome.BACK) for index in range(60))
    end = History(moves=moves).cooldown_end(WEB, first=900, longest=21_600, window=172_800, now=NOW)
    assert end == NOW - 50 + 21_600


def test_rule_7_three_misses_in_a_row_stop_everything() -> None:
    workload = ("ReplicaSet", "a", "b")
    missed = [
        past(f"x{index}", outcome=outcome, begun=START, ended=START + index, workload=workload)
        for index, outcome in enumerate((MoveOutcome.BACK, MoveOutcome.ELSEWHERE, MoveOutcome.BACK))
    ]
    assert refused(one_hot_node(), history=history(*missed)) == {Reason.PREDICTION_FAILS: 1}
    landed = past("y", outcome=MoveOutcome.LANDED, begun=START, ended=START + 10, workload=workload)
    assert moved(one_hot_node().plan(history=history(*missed, landed)))
    # A refusal says nothing about the prediction.
    said_no = replace(landed, outcome=MoveOutcome.REFUSED)
    assert refused(one_hot_node(), history=history(*missed, said_no)) == {Reason.PREDICTION_FAILS: 1}


def test_rule_7_a_plan_moves_no_pod_twice() -> None:
    plan = one_hot_node(20, pods=7).plan({"targetThresholds": {"cpu": 50, "memory": 90}, "minimumGain": 1}, rounds=50)
    pods = [pod for pod, _, _ in moved(plan)]
    assert len(pods) > 2
    assert len(set(pods)) == len(pods)


# Rule 8 ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("health", "reason"),
    [
        (SchedulerHealth(problem="Available is False"), Reason.SCHEDULER_UNAVAILABLE),
        (SchedulerHealth(running="abc", planned="def"), Reason.OTHER_CONFIGURATION),
        (SchedulerHealth(running="", planned="def"), Reason.OTHER_CONFIGURATION),
    ],
)
def test_rule_8_nothing_moves_unless_the_scheduler_runs_with_this_configuration(
    health: SchedulerHealth, reason: Reason
) -> None:
    assert refused(one_hot_node(), health=health) == {reason: 1}
    assert moved(one_hot_node().plan(health=SchedulerHealth(running="abc", planned="abc")))


def test_rule_8_nothing_moves_while_one_pod_in_twenty_waits() -> None:
    def pending(name: str) -> Object:
        item = running(name, "n0", owner="late")
        del item["spec"]["nodeName"], item["status"]
        return item

    scene = one_hot_node(20)
    assert moved(scene.with_objects(pending("late-0")).plan())
    assert refused(scene.with_objects(pending("late-0"), pending("late-1"))) == {Reason.PODS_PENDING: 1}
    # Who holds a pod back by a gate wants it to wait.
    gated = pending("late-1")
    gated["spec"]["schedulingGates"] = [{"name": "hold"}]
    assert moved(scene.with_objects(pending("late-0"), gated).plan())


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_rule_8_nothing_moves_while_a_node_is_not_ready(ready: str) -> None:
    scene = one_hot_node().change("n3", status(conditions=[{"type": "Ready", "status": ready}]))
    assert refused(scene) == {Reason.NODE_NOT_READY: 1}
    assert moved(one_hot_node().change("n3", status(conditions=[{"type": "Ready", "status": "True"}])).plan())
