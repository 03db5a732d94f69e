"""`explain`: what it prints, and which pods it asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from secondary_scheduler.cli.explain.rendering import pod_lines, write
from secondary_scheduler.cli.output import FullOutputFormat
from secondary_scheduler.clusterstatus.installed import holders_of, schedulers_leases
from tests.support import answers

SINCE = "2026-11-24T09:00:00Z"
SCORE = {"raw": 40, "normalized": 50, "weighted": 250}


def node(name: str, total: int, *, chosen: bool = False, cpu: float | None = 35.4) -> dict[str, Any]:
    load = {"watcher:http://w": {"cpu": cpu, "memory": None, "age": 12.0}}
    return {"name": name, "total": total, "chosen": chosen, "scores": {"TargetLoadPacking": SCORE}, "load": load}


def decision(**fields: Any) -> dict[str, Any]:
    details = {
        "evaluated": 3, "feasible": 2, "ties": 1, "nodes": [node("n1", 250, chosen=True), node("n2", 100)],
        "rejected": [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 1, "examples": ["n3"]}],
    }  # fmt: skip
    return answers.decision(**{"details": details, **fields})


def shown(*items: dict[str, Any], waiting: dict[str, Any] | None = None, wide: bool = False) -> list[str]:
    return list(pod_lines(answers.read_decisions(*items, waiting=waiting), wide=wide))


def test_rejections_that_count_no_more_are_shown_as_such() -> None:
    group = {"plugin": "HighLoadFilter", "reason": "node predicted CPU …", "nodes": 2, "examples": ["n1", "n2"]}
    details = {**decision()["details"], "rejected": [], "taken_back": [group]}
    assert shown(decision(details=details))[-2:] == [
        "Rejected, and taken back as no node was left:",
        "  2 nodes  HighLoadFilter  node predicted CPU …  n1, n2",
    ]


def test_a_placed_pod_has_the_scores_of_its_node_and_the_load_behind_them() -> None:
    assert shown(decision(waitedSeconds=0.4)) == [
        "shop/web: scheduled on n1 (attempt 1, after 0.4 s, 2026-11-24T10:00:00Z, s)",
        "",
        "2 of 3 nodes fit.",
        "     NODE  TOTAL  TargetLoadPacking  LOAD (CPU, MEMORY, AGE)",
        "  *  n1    250    250                35% - 12 s",
        "     n2    100    250                35% - 12 s",
        "Rejected:",
        "  1 node  NodeResourcesFit  Insufficient cpu  n3",
    ]
    assert "  *  n1    250    40/50/250          35% - 12 s" in shown(decision(), wide=True)


def test_of_a_pod_that_got_none_of_the_nodes_that_fit_none_is_said_to_be_chosen() -> None:
    message = "0/1 nodes are available: 1 of 3 members of the gang have room."
    text = shown(decision(result="unschedulable", node=None, message=message))
    assert text[1:5] == [
        f"  {message}",
        "",
        "2 of 3 nodes fit the pod by itself; it was given none, for the reason above.",
        "    NODE  TOTAL  TargetLoadPacking  LOAD (CPU, MEMORY, AGE)",
    ]
    assert not any("*" in line for line in text)


def test_what_was_rejected_is_not_told_twice_where_nothing_has_changed_since() -> None:
    details = {**decision()["details"], "feasible": 0, "nodes": []}
    rejected = decision(result="unschedulable", node=None, details=details)
    same = shown(rejected, waiting={**WAITING, "now": details})
    assert "At this moment all of that is still so." in same
    assert sum("Insufficient cpu" in line for line in same) == 1
    changed = shown(rejected, waiting={**WAITING, "now": {**details, "rejected": []}})
    assert "At this moment:" in changed
    assert "  0 of 3 nodes fit." in changed


WAITING = answers.tried_again(
    queue="backoff", attempts=2, backoffSeconds=1.5, rejectedBy=["NodeResourcesFit"],
    wokenBy={"NodeResourcesFit": ["Node/Add", "Pod/Delete"], "DefaultPreemption": []},
)  # fmt: skip


def test_a_pending_pod_says_where_it_waits_and_what_would_help() -> None:
    rejected = decision(result="unschedulable", node=None, message="0/3 nodes are available: 3 Insufficient cpu.")
    text = shown(rejected, waiting=WAITING)
    assert text[1] == "  0/3 nodes are available: 3 Insufficient cpu."
    assert text[-5:] == [
        "It waits in the backoff queue for 3.5 s, after 2 attempts, tried again in 1.5 s.",
        "At this moment:",
        "  0 of 3 nodes fit.",
        "It is tried again when one of these may help:",
        "  NodeResourcesFit  Node/Add, Pod/Delete",
    ]


GANG = {
    "name": "pod group ml/training", "minimum": 8, "placed": 2, "waiting": 6, "levels": ["rack", "block"],
    "domains": [{"domain": "rack=r3", "nodes": 4, "room": 5}, {"domain": "block=b1", "nodes": 9, "room": 12}],
    "domainCount": 14,
}  # fmt: skip


def test_a_member_of_a_gang_says_which_domains_would_take_how_many() -> None:
    text = shown(waiting={**WAITING, "gang": GANG})
    assert text[-7:-2] == [
        "It is tried with its gang, pod group ml/training: 2 of at least 8 members have nodes, 6 wait.",
        "All go to one domain of rack or block. Of 14 domains those with most room now:",
        "  DOMAIN    NODES  ROOM FOR MEMBERS",
        "  rack=r3   4      5                 1 too few",
        "  block=b1  9      12",
    ]
    none = {**GANG, "domains": [], "obstacle": "no node has the label rack"}
    assert "  no node has the label rack" in shown(waiting={**WAITING, "gang": none})


def test_room_that_is_missing_is_told_with_the_nearest_nodes() -> None:
    nearest = [{"node": "n7", "missing": {"cpu": "300m"}}, {"node": "n3", "missing": {"cpu": "1", "memory": "2Gi"}}]
    shortage = {"nodes": 14, "too_small": 2, "nearest": nearest}
    details = {"evaluated": 20, "feasible": 0, "ties": 0, "nodes": [], "rejected": [], "shortage": shortage}
    assert shown(decision(result="unschedulable", node=None, details=details))[-3:] == [
        "Nothing but room is missing on 14 nodes, 2 of them even when empty.",
        "  n7 lacks 300m cpu",
        "  n3 lacks 1 cpu, 2Gi memory",
    ]


def test_a_gated_pod_that_was_never_tried_shows_its_gate() -> None:
    gate = {"plugin": "SchedulingGates", "message": "waiting for scheduling gates: [g]"}
    waiting = answers.tried_again(queue="gated", attempts=0, seconds=9.0, gate=gate)
    assert shown(waiting=waiting)[:2] == [
        "It waits in the gated queue for 9.0 s, after 0 attempts.",
        "  SchedulingGates: waiting for scheduling gates: [g]",
    ]


def test_victims_of_other_namespaces_are_a_number() -> None:
    preempting = decision(result="unschedulable", node=None, nominatedNode="n2", victims=["shop/a"], victimCount=3)
    assert "  preempts on n2: shop/a and 2 of other namespaces" in shown(preempting)


def test_a_decision_without_details_says_why() -> None:
    assert any("scores of this decision were not kept" in line for line in shown(decision(details=None)))
    history = {"since": SINCE, "leadingSince": SINCE, "inheritedFrom": None, "decisions": 1000, "withDetails": 140}
    text = list(pod_lines(answers.read_decisions(decision(details=None), history=history), wide=False))
    assert text[-1] == "Of 1000 decisions since 2026-11-24T09:00:00Z, 140 have theirs (14 %)."


def test_earlier_attempts_are_a_line_each() -> None:
    earlier = decision(result="unschedulable", node=None, message="0/1 nodes are available.")
    assert shown(decision(), earlier)[-2:] == [
        "Earlier attempts:",
        "  2026-11-24T10:00:00Z  unschedulable  0/1 nodes are available.",
    ]


def test_no_text_of_the_cluster_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = answers.read_decisions(decision(message="\x1b[2Jgone", node="n\x1b]0;owned\x07", waitedSeconds=1))
    write(hostile, FullOutputFormat.TABLE, pod_lines(hostile, wide=False))
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert not any(character < " " for line in lines for character in line)


def test_an_error_and_a_nomination_are_told_instead_of_a_count_of_nodes() -> None:
    broken = {**answers.NOTHING_FITS, "error": 'running "X" filter plugin: a defect'}
    text = shown(decision(result="error", node=None, details=broken))
    assert text[-1] == 'Nothing can be said about any of 3 nodes: running "X" filter plugin: a defect'
    details = {**decision()["details"], "nominated": True, "rejected": []}
    assert "It fits where preemption made room for it; no other node was looked at." in shown(decision(details=details))


class FakeConnection:
    """Answers with Leases."""

    def __init__(self, *leases: dict[str, Any]) -> None:
        self._leases = leases

    def get(self, path: str, params: Any) -> bytes:
        assert path == "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
        return json.dumps({"items": self._leases}).encode()


def lease(holder: str | None, *, ours: bool = True) -> dict[str, Any]:
    annotations = {"secondary-scheduler.io/configuration-hash": "h"} if ours else {}
    return {"metadata": {"annotations": annotations}, "spec": {"holderIdentity": holder}}


@pytest.mark.parametrize(
    ("leases", "pods"),
    [
        ([lease("scheduler-7f-abc_1b2c"), lease("other_pod_9a")], ["scheduler-7f-abc", "other_pod"]),
        ([lease("operator-x_1", ours=False), lease(None), lease("")], []),
        ([], []),
    ],
)
def test_the_leases_of_our_schedulers_name_the_pods_that_lead(leases: list[dict[str, Any]], pods: list[str]) -> None:
    assert holders_of(schedulers_leases(FakeConnection(*leases), "ns")) == pods  # type: ignore[arg-type]
