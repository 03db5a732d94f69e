"""What `plan` counts, prints and exits with when a configuration changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.simulating import CONFIGURATION, LOAD_AWARE, SCHEDULER, load, node, pod, run
from tests.unit.cli.plan.comparing import Comparer, scoring_by

SPREADING = scoring_by("LeastAllocated")
PACKING = scoring_by("MostAllocated")
NO_SCORES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins: {score: {disabled: [{name: "*"}]}}
"""


def only_in_zone(zone: str) -> str:
    expressions = [{"key": "zone", "operator": "In", "values": [zone]}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    args = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    data = yaml.safe_load(CONFIGURATION)
    data["profiles"][0]["pluginConfig"] = [{"name": "NodeAffinity", "args": args}]
    return yaml.safe_dump(data)


@pytest.fixture
def comparer(tmp_path: Path) -> Comparer:
    return Comparer(tmp_path)


def waiting(count: int, **more: Any) -> list[dict[str, Any]]:
    return [pod(f"p{number}", cpu="500m", meta=created(number), **more) for number in range(count)]


def created(second: int) -> dict[str, Any]:
    return {"creationTimestamp": f"2026-01-01T00:00:{second:02d}Z"}


def counts(document: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in document["counts"].items() if count}


# Counts and exit codes ------------------------------------------------------------------------------------------------


def test_pods_that_move_are_counted_and_the_exit_code_says_so(comparer: Comparer) -> None:
    code, document = comparer.document(SPREADING, PACKING, node("n1"), node("n2"), *waiting(4))
    assert code == 3
    assert document["apiVersion"] == "secondary-scheduler.io/v1"
    assert document["kind"] == "PlanResult"
    moved = [entry for entry in document["differences"] if entry["change"] == "otherNode"]
    assert document["counts"]["otherNode"] == len(moved) == 2
    assert document["counts"]["sameNode"] == 2
    assert {entry["new"]["node"] for entry in moved} != {entry["old"]["node"] for entry in moved}
    pods = {entry["node"]: (entry["old"]["pods"], entry["new"]["pods"]) for entry in document["nodes"]}
    assert sorted(old for old, _ in pods.values()) == [2, 2]
    assert sorted(new for _, new in pods.values()) == [0, 4]


def test_a_change_that_moves_nothing_has_exit_code_0(comparer: Comparer) -> None:
    heavier = SPREADING.replace("weight: 1", "weight: 7")
    assert heavier != SPREADING
    code, document = comparer.document(SPREADING, heavier, node("n1"), node("n2"), *waiting(5))
    assert code == 0
    assert document["changes"]
    assert document["differences"] == []
    assert counts(document) == {"pods": 5, "sameNode": 5}


def test_pods_that_fit_nowhere_any_more_are_named_with_the_reason(comparer: Comparer) -> None:
    objects = [node("n1"), *waiting(2)]
    code, document = comparer.document(CONFIGURATION, only_in_zone("b"), *objects)
    assert code == 3
    assert counts(document) == {"pods": 2, "newlyUnschedulable": 2}
    first = document["differences"][0]
    assert (first["pod"], first["old"], first["new"]["node"]) == (
        "default/p0",
        {"node": "n1", "message": None},
        None,
    )
    assert "0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity" in first["new"]["message"]
    shown = comparer.compare(CONFIGURATION, only_in_zone("b"), *objects).out
    assert "NEWLY UNSCHEDULABLE  OLD NODE  NEW NODE  REASON" in shown
    assert "default/p1           n1        -         0/1 nodes are available" in shown


def test_pods_that_fit_again_are_counted(comparer: Comparer) -> None:
    code, document = comparer.document(only_in_zone("b"), CONFIGURATION, node("n1"), *waiting(2))
    assert code == 3
    assert counts(document) == {"pods": 2, "newlySchedulable": 2}


def test_pods_that_fit_nowhere_in_both_are_no_difference(comparer: Comparer) -> None:
    code, document = comparer.document(CONFIGURATION, CONFIGURATION, node("n1"), pod("big", cpu="40"))
    assert code == 0
    assert counts(document) == {"pods": 1, "unschedulableInBoth": 1}


def test_pods_of_a_profile_that_is_removed_have_no_scheduler_any_more(comparer: Comparer) -> None:
    two_profiles = CONFIGURATION + "- schedulerName: batch\n"
    objects = [node("n1"), pod("a"), pod("b", schedulerName="batch"), pod("c", schedulerName="other")]
    code, document = comparer.document(two_profiles, CONFIGURATION, *objects)
    assert code == 3
    assert counts(document) == {"pods": 2, "sameNode": 1, "newlyUnschedulable": 1}
    (gone,) = document["differences"]
    assert gone["pod"] == "default/b"
    assert gone["new"]["message"] == "no profile of this configuration is called batch: nothing schedules the pod"
    _, added = comparer.document(CONFIGURATION, two_profiles, *objects)
    assert counts(added) == {"pods": 2, "sameNode": 1, "newlySchedulable": 1}


def test_an_invalid_object_is_left_out_and_decides_the_exit_code(comparer: Comparer) -> None:
    broken = node("n9")
    broken["status"] = "full"
    done = comparer.compare(SPREADING, PACKING, node("n1"), node("n2"), broken, *waiting(4))
    assert done.code == 4
    assert "other node               2" in done.out
    assert done.err.count("left out") == 1


@pytest.mark.parametrize("option", ["--old", "--new"])
def test_an_invalid_configuration_ends_it_without_output(comparer: Comparer, option: str) -> None:
    good, bad = comparer.write("good.yaml", CONFIGURATION), comparer.write("bad.yaml", "kind: Colour\n")
    files = {"--old": good, "--new": good, option: bad}
    snapshot = comparer.snapshot(node("n1"))
    done = run("plan", *(word for pair in files.items() for word in pair), "--snapshot", snapshot)
    assert (done.code, done.out) == (4, "")
    assert "bad.yaml" in done.err


# Chance ---------------------------------------------------------------------------------------------------------------


def test_differences_between_equally_good_nodes_are_counted(comparer: Comparer) -> None:
    code, document = comparer.document(SPREADING, NO_SCORES, node("n1"), node("n2"), *waiting(8))
    moved = document["counts"]["otherNode"]
    assert code == 3
    assert moved > 0
    assert document["counts"]["equallyGood"] == moved
    assert all(entry["equallyGood"] for entry in document["differences"])
    _, the_other_way = comparer.document(NO_SCORES, SPREADING, node("n1", cpu="8"), node("n2"), pod("a"), pod("b"))
    assert the_other_way["counts"]["equallyGood"] == 0


def test_a_pod_that_fits_nowhere_any_more_does_not_change_how_the_ties_of_others_are_broken(comparer: Comparer) -> None:
    ours, theirs = yaml.safe_load(NO_SCORES), yaml.safe_load(only_in_zone("none"))
    batch = {**ours["profiles"][0], "schedulerName": "batch"}
    old = {**ours, "profiles": [*ours["profiles"], batch]}
    refusing = {**batch, "pluginConfig": theirs["profiles"][0]["pluginConfig"]}
    new = {**ours, "profiles": [*ours["profiles"], refusing]}
    nodes = [node(f"n{number}") for number in range(20)]
    pods = [
        pod(f"p{number}", meta=created(number), schedulerName="batch" if number % 3 == 0 else SCHEDULER)
        for number in range(30)
    ]
    _, document = comparer.document(yaml.safe_dump(old), yaml.safe_dump(new), *nodes, *pods)
    assert counts(document) == {"pods": 30, "sameNode": 20, "newlyUnschedulable": 10}


# Over all -------------------------------------------------------------------------------------------------------------


def on(name: str, node_name: str, second: int, **spec: Any) -> dict[str, Any]:
    return pod(name, cpu="500m", meta={"uid": name, **created(second)}, nodeName=node_name, **spec)


def test_all_pods_of_the_profiles_are_placed_anew_and_those_of_others_stay(comparer: Comparer) -> None:
    deleted = on("leaving", "n1", 1)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    mirror = on("static", "n1", 1)
    mirror["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1", "controller": True}
    ]
    other = on("other", "n1", 1, schedulerName="default-scheduler")
    objects = [node("n1"), node("n2"), *(on(f"p{number}", "n1", number) for number in range(4)), deleted, mirror, other]
    code, document = comparer.document(SPREADING, PACKING, *objects, arguments=("--over", "all"))
    assert code == 3
    assert document["over"] == "all"
    assert document["counts"]["pods"] == 4
    pods = {entry["node"]: (entry["old"]["pods"], entry["new"]["pods"]) for entry in document["nodes"]}
    # Three stay on n1: spreading puts the four mostly on n2, packing all beside them.
    assert pods == {"n1": (3, 7), "n2": (4, 0)} or pods == {"n1": (4, 7), "n2": (3, 0)}
    code, pending = comparer.document(SPREADING, PACKING, *objects)
    assert (code, pending["counts"]["pods"]) == (0, 0)


def test_all_pods_are_placed_in_the_order_in_which_they_were_created(comparer: Comparer) -> None:
    late = on("late", "n1", 9, priority=1000)
    objects = [node("n1", cpu="600m"), late, on("early", "n1", 1)]
    _, document = comparer.document(CONFIGURATION, only_in_zone("none"), *objects, arguments=("--over", "all"))
    assert counts(document) == {"pods": 2, "newlyUnschedulable": 1, "unschedulableInBoth": 1}
    assert [entry["pod"] for entry in document["differences"]] == ["default/early"]


# The nodes ------------------------------------------------------------------------------------------------------------


def test_requests_and_estimated_load_are_those_after_the_placements(comparer: Comparer) -> None:
    comparer.load = load({"n1": 30, "n2": 10}, end=1767268800, timestamp=1767268800)
    objects = [node("n1"), node("n2"), pod("a", cpu="200m"), on("old", "n1", 0)]
    _, document = comparer.document(LOAD_AWARE, only_in_zone("none"), *objects)
    nodes = {entry["node"]: entry for entry in document["nodes"]}
    # TargetLoadPacking with a target of 40: n1 is nearer.
    assert nodes["n1"]["old"]["requests"]["cpu"] == pytest.approx(17.5)
    assert nodes["n1"]["old"]["estimatedLoad"] == {"cpu": pytest.approx(35.0), "memory": None}
    assert nodes["n1"]["new"]["estimatedLoad"]["cpu"] == pytest.approx(30.0)
    assert nodes["n2"]["new"]["estimatedLoad"]["cpu"] == pytest.approx(10.0)
    assert document["old"]["estimatedLoad"]["cpu"] == {"stddev": 12.5, "p95": 33.75, "max": 35.0}
    assert document["new"]["estimatedLoad"]["cpu"] == {"stddev": 10.0, "p95": 29.0, "max": 30.0}
    assert document["new"]["requests"]["cpu"] == {"stddev": 6.25, "p95": 11.875, "max": 12.5}
    assert document["old"]["estimatedLoad"]["memory"] is None


def test_a_pod_that_is_placed_anew_is_not_counted_where_it_was_measured(comparer: Comparer) -> None:
    comparer.load = load({"n1": 30, "n2": 10}, end=1767268800, timestamp=1767268800)
    objects = [node("n1"), node("n2"), on("old", "n1", 0)]
    _, document = comparer.document(LOAD_AWARE, only_in_zone("none"), *objects, arguments=("--over", "all"))
    nodes = {entry["node"]: entry for entry in document["nodes"]}
    assert nodes["n1"]["old"]["estimatedLoad"]["cpu"] == pytest.approx(30.0)
    assert nodes["n1"]["new"]["estimatedLoad"]["cpu"] == pytest.approx(17.5)


def test_without_load_there_is_none_in_the_output(comparer: Comparer) -> None:
    done = comparer.compare(SPREADING, PACKING, node("n1"), node("n2"), *waiting(4))
    assert "cpu requests" in done.out
    assert "load" not in done.out


def test_the_table_has_the_nodes_that_change_and_wide_all(comparer: Comparer) -> None:
    objects = [*(node(f"n{number}", cpu="4") for number in range(14)), node("idle", unschedulable=True), *waiting(14)]
    table = comparer.compare(SPREADING, PACKING, *objects)
    assert "NODES THAT CHANGE MOST" in table.out
    assert "idle" not in table.out
    assert "and 4 more (-o wide)" in table.out
    wide = comparer.compare(SPREADING, PACKING, *objects, arguments=("-o", "wide"))
    assert "idle" in wide.out
    assert "more (-o wide)" not in wide.out
    assert wide.code == table.code == 3


# Forms ----------------------------------------------------------------------------------------------------------------


def test_yaml_says_the_same_as_json(comparer: Comparer) -> None:
    objects = [node("n1"), node("n2"), *waiting(4)]
    _, document = comparer.document(SPREADING, PACKING, *objects)
    done = comparer.compare(SPREADING, PACKING, *objects, arguments=("-o", "yaml"))
    assert yaml.safe_load(done.out) == document


@pytest.mark.parametrize("arguments", [("--summary",), ("-o", "markdown"), ("-o", "markdown", "--summary")])
def test_a_summary_has_at_most_five_lines(comparer: Comparer, arguments: tuple[str, ...]) -> None:
    comparer.load = load({"n1": 30}, end=1767268800)
    done = comparer.compare(LOAD_AWARE, only_in_zone("b"), node("n1"), *waiting(8), arguments=arguments)
    lines = done.out.splitlines()
    assert 3 <= len(lines) <= 5
    assert "8 pending pods: 0 on the same node" in lines[0]
    assert "8 newly unschedulable" in lines[0]
    assert "default/p0" in lines[1]
    assert "and 5 more" in lines[1]


def test_the_summary_of_no_difference_says_so_first(comparer: Comparer) -> None:
    done = comparer.compare(SPREADING, SPREADING, node("n1"), pod("big", cpu="40"), arguments=("--summary",))
    assert done.out.splitlines()[0] == "1 pending pods: no placement differs (1 unschedulable with both)"


def test_where_no_pod_waits_plan_says_how_those_that_run_are_compared(comparer: Comparer) -> None:
    objects = (node("n1"), pod("runs", nodeName="n1"))
    done = comparer.compare(SPREADING, SPREADING, *objects)
    assert done.code == 0, done.err
    hint = "none is compared; --over all compares those that run"
    assert hint in done.out
    assert f"0 pending pods: {hint}" in comparer.compare(SPREADING, SPREADING, *objects, arguments=("--summary",)).out
    again = comparer.compare(SPREADING, SPREADING, *objects, arguments=("--over", "all", "--summary"))
    assert "1 pods, placed again: no placement differs" in again.out + again.err


def test_names_are_shown_as_text_whatever_they_hold(comparer: Comparer) -> None:
    hostile = pod("<img src=x>@here|`x`\x1b[31m", cpu="100m")
    for arguments in ((), ("-o", "wide"), ("--summary",), ("-o", "markdown")):
        done = comparer.compare(CONFIGURATION, only_in_zone("b"), node("n1\x1b[2J"), hostile, arguments=arguments)
        assert done.code == 3
        assert "\x1b" not in done.out + done.err
    markdown = comparer.compare(CONFIGURATION, only_in_zone("b"), node("n1"), hostile, arguments=("-o", "markdown")).out
    assert "<img" not in markdown
    assert "@here" not in markdown
    assert "\\|\\`x\\`" in markdown


def test_what_both_sides_remark_is_said_once_and_what_one_says_with_its_side(comparer: Comparer) -> None:
    done = comparer.compare(CONFIGURATION, LOAD_AWARE, node("n1", memory="8"), pod("a"))
    assert done.err.count("without memory") == 1
    assert "\nnew: TargetLoadPacking: decided without the load of nodes" in "\n" + done.err


def test_the_pods_of_another_scheduler_can_be_placed_too(comparer: Comparer) -> None:
    objects = [node("n1"), node("n2"), *waiting(4, schedulerName="default-scheduler")]
    code, document = comparer.document(
        SPREADING, PACKING, *objects, arguments=("--as-scheduler", f"default-scheduler={SCHEDULER}")
    )
    assert (code, document["counts"]["pods"]) == (3, 4)


def test_json_is_one_document_for_a_program(comparer: Comparer) -> None:
    done = comparer.compare(SPREADING, PACKING, node("n1"), pod("a"), arguments=("-o", "json"))
    assert set(json.loads(done.out)) == {
        *("apiVersion", "kind", "over", "seed", "changes", "counts", "old", "new", "differences", "nodes")
    }
