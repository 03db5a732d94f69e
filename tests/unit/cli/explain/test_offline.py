"""`explain pod --snapshot`: the answer about a pod of a snapshot, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.pagemodels import snapshot_items
from tests.support.simulating import CONFIGURATION, Result, node, pod, run


class Bench:
    """A directory with a configuration, and a snapshot written into it."""

    def __init__(self, directory: Path) -> None:
        self.config, self.snapshot = directory / "config.yaml", directory / "snapshot.json"
        self.config.write_text(CONFIGURATION)

    def explain(self, name: str, *objects: dict[str, Any], more: tuple[str, ...] = ()) -> Result:
        return self.ask(f"pod {name}", *objects, more=more)

    def ask(self, command: str, *objects: dict[str, Any], more: tuple[str, ...] = ()) -> Result:
        self.snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        files = ("--snapshot", self.snapshot, "--config", self.config)
        return run("explain", *command.split(), *files, *more)

    def about(self, command: str, *objects: dict[str, Any]) -> Any:
        return json.loads(self.ask(command, *objects, more=("-o", "json")).out)

    def answer(self, name: str, *objects: dict[str, Any], more: tuple[str, ...] = ()) -> Any:
        return json.loads(self.explain(name, *objects, more=("-o", "json", *more)).out)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


SMALL, LARGE = node("small", cpu="1"), node("large", cpu="8")
FIRST = {"creationTimestamp": "2026-11-24T10:00:00Z"}
SECOND = {"creationTimestamp": "2026-11-24T10:00:01Z"}


def test_a_pending_pod_is_decided_after_those_before_it_as_simulate_does(bench: Bench) -> None:
    objects = (SMALL, node("large", cpu="2"), pod("first", cpu="2", meta=FIRST), pod("second", cpu="2", meta=SECOND))
    first, second = bench.answer("first", *objects)["items"][0], bench.answer("second", *objects)["items"][0]
    assert (first["result"], first["node"], first["simulated"]) == ("scheduled", "large", True)
    assert [scored["name"] for scored in first["details"]["nodes"] if scored["chosen"]] == ["large"]
    assert (second["result"], second["node"]) == ("unschedulable", None)
    assert second["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert second["details"]["shortage"]["nodes"] == 2
    simulated = run("simulate", "--config", bench.config, "--snapshot", bench.snapshot, "-o", "json").decisions
    assert simulated["default/second"]["message"] == second["message"]


def test_the_text_is_that_of_a_running_scheduler(bench: Bench) -> None:
    shown = bench.explain("p", SMALL, LARGE, pod("p", cpu="2", meta=FIRST), more=("--why-not", "small"))
    assert shown.code == 0
    text = shown.out.splitlines()
    assert text[0].startswith("default/p: scheduled on large (simulated, 2026-11-24T10:00:00Z, secondary-scheduler)")
    assert "1 of 2 nodes fit." in text
    why_not = text.index("Why not small (judged as it is now, and without the pod's own use on large):")
    assert text[why_not + 1] == "  NodeResourcesFit rejects it: Insufficient cpu"


def test_a_placed_pod_is_judged_without_its_own_use(bench: Bench) -> None:
    placed = pod("p", cpu="800m", meta=FIRST, nodeName="small")
    answer = bench.answer("p", SMALL, LARGE, placed, more=("--why-not", "large"))
    (item,) = answer["items"]
    assert (item["result"], item["node"], item["details"]["feasible"]) == ("placed", "small", 2)
    assert (answer["whyNot"]["placedOn"], answer["whyNot"]["verdict"]["rejection"]) == ("small", None)
    assert item["message"] == "decided again, this node would be number 2 of 2 that fit"
    full = bench.answer("p", SMALL, LARGE, pod("other", cpu="900m", nodeName="small"), placed)["items"][0]
    assert "would not be placed there again" in full["message"]


def test_that_nothing_waits_is_no_remark_about_a_placed_pod(bench: Bench) -> None:
    shown = bench.explain("p", SMALL, pod("p", nodeName="small"))
    assert shown.out.startswith("default/p: placed on small")
    assert "nothing to decide" not in shown.err


def test_a_gated_pod_says_its_gate(bench: Bench) -> None:
    shown = bench.explain("p", LARGE, pod("p", schedulingGates=[{"name": "wait"}]))
    assert shown.out.splitlines()[1] == "  waiting for scheduling gates: [wait]"


@pytest.mark.parametrize(
    ("name", "more", "code", "reason"),
    [
        ("absent", (), 4, "default/absent: the snapshot has no such pod"),
        (
            "foreign",
            (),
            4,
            "default/foreign: it waits for default-scheduler; the configuration decides for secondary-sch",
        ),
        ("foreign", (), 4, "`simulate --as-scheduler default-scheduler` decides about such pods"),
        ("ended", (), 4, "default/ended: it has ended (Succeeded), so no node is judged for it"),
        ("broken", (), 4, "default/broken: nothing can be decided about it: "),
        ("absent", ("-n", "shop"), 4, "shop/absent: the snapshot has no such pod"),
        ("p", ("-n", "shop"), 4, "shop/p: the snapshot has no such pod; one of this name is in default: -n default"),
        ("p", ("--why-not", "n9"), 1, "--why-not n9: no node has this name"),
        ("p", ("--scheduler-pod", "s"), 2, "--snapshot and --scheduler-pod exclude each other"),
        ("p", ("--now", "yesterday"), 2, "--now"),
    ],
)
def test_what_cannot_be_answered_says_why(
    bench: Bench, name: str, more: tuple[str, ...], code: int, reason: str
) -> None:
    foreign = pod("foreign", schedulerName="default-scheduler")
    ended, broken = pod("ended"), pod("broken", priority="high")
    ended["status"] = {"phase": "Succeeded"}
    refused = bench.explain(name, LARGE, pod("p"), foreign, ended, broken, more=more)
    assert refused.code == code
    assert reason in refused.err.splitlines()[-1]


def owned(obj: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    obj["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u"}]
    return obj


def workload(kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{name}"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {}}


def test_of_a_deployment_of_a_snapshot_the_pod_that_waits_longest_is_explained(bench: Bench) -> None:
    ended = owned(pod("ended", meta=FIRST), "ReplicaSet", "web-1")
    ended["status"] = {"phase": "Succeeded"}
    objects = (
        *(LARGE, workload("Deployment", "web"), owned(workload("ReplicaSet", "web-1"), "Deployment", "web"), ended),
        owned(workload("ReplicaSet", "api-1"), "Deployment", "api"),
        owned(pod("runs", nodeName="large", meta=FIRST), "ReplicaSet", "web-1"),
        owned(pod("later", cpu="99", meta=SECOND), "ReplicaSet", "web-1"),
        owned(pod("longest", cpu="99", meta=FIRST), "ReplicaSet", "web-1"),
        owned(pod("other", cpu="99", meta=FIRST), "ReplicaSet", "api-1"),
    )
    answer = bench.about("deployment/web", *objects)
    assert answer["items"][0]["pod"] == "default/longest"
    assert answer["deployment"] == {
        "name": "web",
        "pods": 3,
        "explained": "longest",
        "waiting": ["longest", "later"],
        "nodes": {"large": 1},
        "kind": "Deployment",
    }
    text = bench.ask("deployment/web", *objects).out
    assert text.startswith("Deployment web: 3 pods; 2 of them waiting; 1 on large.\nAbout longest, which waits longest")


def test_of_a_podgroup_of_a_snapshot_the_member_that_waits_longest_is_explained(bench: Bench) -> None:
    def member(name: str, group: str = "training", **fields: Any) -> dict[str, Any]:
        obj = pod(name, **fields)
        obj["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
        return obj

    objects = (
        LARGE,
        member("runs", nodeName="large", meta=FIRST),
        member("later", cpu="99", meta=SECOND),
        member("longest", cpu="99", meta=FIRST),
        member("other", group="else", cpu="99", meta=FIRST),
    )
    answer = bench.about("podgroup/training", *objects)
    assert answer["items"][0]["pod"] == "default/longest"
    assert answer["deployment"]["kind"] == "PodGroup"
    assert bench.ask("podgroup/training", *objects).out.startswith("PodGroup training: 3 pods; 2 of them waiting; ")
    refused = bench.explain("podgroup/none", *objects)
    assert refused.code == 4
    assert "podgroup default/none: no pod of the snapshot names it that has not ended" in refused.err


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("deployment/wbe", "deployment default/wbe: the snapshot has no such Deployment; did you mean web?"),
        ("deployment/far", "the snapshot has no such Deployment; one of this name is in shop: -n shop"),
        ("deployment/web", "deployment default/web has no pods in the snapshot"),
    ],
)
def test_a_deployment_that_the_snapshot_lacks_or_whose_pods_it_lacks_is_said(
    bench: Bench, command: str, reason: str
) -> None:
    refused = bench.ask(command, LARGE, workload("Deployment", "web"), workload("Deployment", "far", "shop"), pod("p"))
    assert (refused.code, refused.out) == (4, "")
    assert reason in refused.err.splitlines()[-1]


def test_options_of_a_snapshot_need_one(bench: Bench) -> None:
    assert run("explain", "pod", "p", "--config", bench.config).code == 2
    assert run("explain", "pod", "p", "--scheduler", "a/b").code == 2


def test_an_invalid_object_is_reported_and_the_rest_is_explained(bench: Bench) -> None:
    shown = bench.explain("p", LARGE, {"apiVersion": "v1", "kind": "Node", "metadata": 3}, pod("p"))
    assert shown.code == 4
    assert shown.out.startswith("default/p: scheduled on large")
    assert "left out" in shown.err


# The queue and nodes ------------------------------------------------------------------------------------------------

GATED = {"schedulingGates": [{"name": "wait"}]}


def test_the_queue_of_a_snapshot_is_that_after_one_attempt_each(bench: Bench) -> None:
    objects = [
        SMALL,
        pod("fits", cpu="800m", meta=FIRST),
        pod("late", cpu="800m", meta=SECOND),
        pod("held", **GATED),
        pod("theirs", schedulerName="default-scheduler"),
        pod("broken", priority="high"),
    ]
    answer = bench.about("queue", *objects)
    queues = {queue["queue"]: [item["pod"] for item in queue["items"]] for queue in answer["queues"]}
    assert queues == {
        "active": ["default/fits"],
        "unschedulable": ["default/late"],
        "gated": ["default/held"],
        "undecided": ["default/broken"],
    }
    (fits,), (late,) = answer["queues"][0]["items"], answer["queues"][1]["items"]
    assert (fits["node"], fits["position"], fits["seconds"]) == ("small", 1, 1.0)
    assert late["why"] == "NodeResourcesFit"
    assert answer["others"] == {"default-scheduler": 1}


def test_the_text_of_a_snapshots_queue_names_the_pods_that_were_asked_for(bench: Bench) -> None:
    objects = (SMALL, pod("a", meta=FIRST), pod("b", meta=SECOND), pod("held", **GATED))
    text = bench.ask("queue", *objects, more=("-n", "default", "--limit", "1")).out
    assert "active: 2 pods, 2 of them in default\n  #  POD        PRIORITY" in text
    assert "and 1 more (--limit)" in text
    assert "waiting for scheduling gates: [wait]" in text
    other = bench.ask("queue", *objects, more=("-n", "shop")).out
    assert "active: 2 pods, none of them in shop" in other
    assert "default/" not in other


def test_a_node_of_a_snapshot_is_told_as_it_is_with_what_would_come(bench: Bench) -> None:
    objects = (SMALL, LARGE, pod("old", cpu="500m", nodeName="small"), pod("new", cpu="4", meta=FIRST))
    small, large = (bench.about(f"node {name}", *objects) for name in ("small", "large"))
    assert (small["requested"]["cpu"], small["pods"]["counted"], small["wouldPlace"]) == ("500m", 1, [])
    assert (large["requested"]["cpu"], large["pods"]["counted"]) == ("0", 0)
    assert (large["pending"], large["placed"], [each["pod"] for each in large["wouldPlace"]]) == (1, 1, ["default/new"])
    text = bench.ask("node large", *objects).out
    assert "Of 1 pending pod of the snapshot, 1 would be placed there.\n  default/new" in text


def test_the_load_of_a_node_is_told_although_no_profile_reads_one(bench: Bench) -> None:
    bench.config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    items = snapshot_items(2, 0)
    (load,) = bench.about("node node-0000", *items)["load"].items()
    assert (load[0], load[1]["cpu"]) == ("the snapshot", pytest.approx(41, abs=1))
    assert "Load: cpu 41%" in bench.ask("node node-0000", *items).out


def test_a_node_that_the_snapshot_lacks_is_told_with_those_that_it_has(bench: Bench) -> None:
    refused = bench.ask("node n9", SMALL, LARGE)
    assert refused.code == 4
    assert refused.err.splitlines()[-1].endswith("n9: no node of the snapshot has this name; it has 2, such as large")
    assert bench.ask("node n9").err.splitlines()[-1].endswith("it has none")


@pytest.mark.parametrize("command", ["queue", "node n1"])
def test_the_other_commands_have_the_same_rules_of_options(bench: Bench, command: str) -> None:
    assert "--config: only with --snapshot" in run("explain", *command.split(), "--config", bench.config).err
    refused = bench.ask(command, SMALL, more=("--scheduler-pod", "s"))
    assert (refused.code, "--snapshot and --scheduler-pod exclude each other" in refused.err) == (2, True)
    refused = bench.ask(command, SMALL, more=("--context", "prod"))
    assert (refused.code, "--config and --context exclude each other" in refused.err) == (2, True)
    assert bench.ask(command, node("n1"), {"apiVersion": "v1", "kind": "Node", "metadata": 3}).code == 4
