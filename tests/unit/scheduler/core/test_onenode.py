"""What every plugin says of a pod on one node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.answers import NodeVerdict
from scheduler.core import explain, judge_node, without_own_use
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

DEFAULT = runner()
SMALL = {"cpu": "1", "memory": "1Gi", "pods": "10"}


def rejections(verdict: NodeVerdict) -> dict[str, tuple[str, tuple[str, ...]]]:
    codes = ("Success", "Skip")
    return {each.plugin: (each.code, each.reasons) for each in verdict.verdicts if each.code not in codes}


def test_every_plugin_that_rejects_the_node_is_named_and_not_only_the_first() -> None:
    tainted = node("closed", taints=[("x", "", "NoSchedule")], unschedulable=True, allocatable=SMALL)
    snapshot = cluster(tainted, node("open")).snapshot(NOW)
    verdict = judge_node(snapshot, pod("p", container("2")), DEFAULT, "closed")
    assert rejections(verdict) == {
        "NodeUnschedulable": ("UnschedulableAndUnresolvable", ("node(s) were unschedulable",)),
        "TaintToleration": ("UnschedulableAndUnresolvable", ("node(s) had untolerated taint(s)",)),
        "NodeResourcesFit": ("UnschedulableAndUnresolvable", ("Insufficient cpu",)),
    }
    assert verdict.rejection is not None
    assert verdict.rejection.plugin == "NodeUnschedulable"
    assert (verdict.rank, verdict.feasible, verdict.nominated) == (None, 1, False)
    assert [scored.name for scored in verdict.nodes] == ["open"]


def test_a_node_that_fits_has_its_scores_and_its_rank_beside_the_chosen_one() -> None:
    busy = [pod(f"b{number}", container("1")) for number in range(3)]
    state = cluster(node("busy"), node("calm"), node("idle"), pods={"busy": busy, "calm": [pod("c", container("1"))]})
    snapshot = state.snapshot(NOW)
    verdict = judge_node(snapshot, pod("p", container("500m")), DEFAULT, "busy", "calm")
    assert (verdict.rejection, verdict.rank, verdict.feasible) == (None, 3, 3)
    assert [(scored.name, scored.chosen) for scored in verdict.nodes] == [("busy", False), ("calm", True)]
    assert verdict.nodes[0].total < verdict.nodes[1].total
    best = judge_node(snapshot, pod("p", container("500m")), DEFAULT, "idle")
    assert (best.rank, best.ties, [scored.name for scored in best.nodes]) == (1, 1, ["idle"])


def test_a_node_that_is_kept_for_nominated_pods_says_so() -> None:
    state = cluster(node("n0", allocatable=SMALL), node("n1", allocatable=SMALL))
    state.nominator.set(pod("important", container("800m"), priority=10), "n0")
    verdict = judge_node(state.snapshot(NOW), pod("p", container("500m")), DEFAULT, "n0")
    assert verdict.nominated
    assert verdict.rejection is not None
    assert verdict.rejection.plugin == "NodeResourcesFit"
    assert rejections(verdict) == {}


def test_the_node_where_preemption_made_room_gets_no_preference() -> None:
    busy = [pod(f"b{number}", container("1")) for number in range(3)]
    snapshot = cluster(node("n0"), node("n1"), pods={"n0": busy}).snapshot(NOW)
    nominated = msgspec.structs.replace(pod("p", container("500m")), nominated_node="n0")
    verdict = judge_node(snapshot, nominated, DEFAULT, "n1")
    assert (verdict.rank, verdict.feasible) == (1, 2)


def test_what_rejects_all_nodes_is_the_verdict_on_this_one() -> None:
    snapshot = cluster(node("n0"), node("n1")).snapshot(NOW)
    claims = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}])
    verdict = judge_node(snapshot, claims, DEFAULT, "n1")
    (each,) = verdict.verdicts
    assert (each.point, each.reasons) == ("PreFilter", ('persistentvolumeclaim "missing" not found',))
    assert verdict.rejection is not None
    assert verdict.rejection.reasons == each.reasons


def test_a_node_that_prefilter_left_out_says_who_did() -> None:
    snapshot = cluster(node("n0"), node("n1")).snapshot(NOW)
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [fields]}}
    verdict = judge_node(snapshot, pod("p", container("1"), affinity={"nodeAffinity": required}), DEFAULT, "n1")
    assert verdict.rejection is not None
    assert verdict.rejection.plugin == "NodeAffinity"
    assert verdict.verdicts[0].point == "PreFilter"
    assert verdict.verdicts[0].plugin == "NodeAffinity"


def test_a_placed_pod_is_judged_without_its_own_use() -> None:
    placed = pod("p", container("800m"), nodeName="n0")
    snapshot = cluster(node("n0", allocatable=SMALL), node("n1", allocatable=SMALL), pods={"n0": [placed]}).snapshot(
        NOW
    )
    assert not explain(snapshot, placed, DEFAULT).node("n0").feasible
    view, waiting = without_own_use(snapshot, placed)
    verdict = judge_node(view, waiting, DEFAULT, "n0", "n0")
    assert (verdict.rejection, verdict.feasible, verdict.rank, verdict.ties) == (None, 2, 1, 2)
    assert snapshot.requested("cpu")[0] == 800
    elsewhere = msgspec.structs.replace(placed, node_name="gone")
    assert judge_node(*without_own_use(snapshot, elsewhere), DEFAULT, "n1").rejection is None


def test_an_unknown_node_is_no_answer() -> None:
    with pytest.raises(KeyError):
        judge_node(cluster(node("n0")).snapshot(NOW), pod("p"), DEFAULT, "n1")


class Failing:
    """A filter that passes nodes of a name and raises for the others."""

    name = "Failing"

    def filter(self, state: Any, info: Any, view: Any, rows: Any) -> None:
        if [view.name(row) for row in rows.tolist()] != ["open"]:
            raise ValueError("a defect")


def test_what_a_plugin_raises_is_told_where_no_decision_asks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = runner()
    snapshot = cluster(node("closed", unschedulable=True), node("open")).snapshot(NOW)
    monkeypatch.setattr(profile, "filters", (*profile.filters, Failing()))
    verdict = judge_node(snapshot, pod("p"), profile, "closed")
    assert verdict.error is None
    assert rejections(verdict)["Failing"] == ("Error", ('running "Failing" filter plugin: a defect',))
    everywhere = judge_node(cluster(node("n0")).snapshot(NOW), pod("p"), profile, "n0")
    assert everywhere.error == 'running "Failing" filter plugin: a defect'
