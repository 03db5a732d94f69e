"""`explain pod --snapshot`: the answer about a pod of a snapshot, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulating import CONFIGURATION, Result, node, pod, run


class Bench:
    """A directory with a configuration, and a snapshot written into it."""

    def __init__(self, directory: Path) -> None:
        self.config, self.snapshot = directory / "config.yaml", directory / "snapshot.json"
        self.config.write_text(CONFIGURATION)

    def explain(self, name: str, *objects: dict[str, Any], more: tuple[str, ...] = ()) -> Result:
        self.snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return run("explain", "pod", name, "--snapshot", self.snapshot, "--config", self.config, *more)

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
    full = bench.answer("p", SMALL, LARGE, pod("other", cpu="900m", nodeName="small"), placed)["items"][0]
    assert "would not be placed there again" in full["message"]


def test_a_gated_pod_says_its_gate(bench: Bench) -> None:
    shown = bench.explain("p", LARGE, pod("p", schedulingGates=[{"name": "wait"}]))
    assert shown.out.splitlines()[1] == "  waiting for scheduling gates: [wait]"


@pytest.mark.parametrize(
    ("name", "more", "code", "reason"),
    [
        ("absent", (), 4, "default/absent: the snapshot has no such pod"),
        ("foreign", (), 4, "default/foreign: the snapshot has no such pod"),
        ("p", ("--why-not", "n9"), 1, "--why-not n9: no node of the snapshot has this name"),
        ("p", ("--scheduler-pod", "s"), 2, "--snapshot and --scheduler-pod exclude each other"),
        ("p", ("--now", "yesterday"), 2, "--now"),
    ],
)
def test_what_cannot_be_answered_says_why(
    bench: Bench, name: str, more: tuple[str, ...], code: int, reason: str
) -> None:
    foreign = pod("foreign", schedulerName="default-scheduler")
    refused = bench.explain(name, LARGE, pod("p"), foreign, more=more)
    assert refused.code == code
    assert reason in refused.err.splitlines()[-1]


def test_options_of_a_snapshot_need_one_and_a_snapshot_needs_a_configuration(bench: Bench) -> None:
    assert run("explain", "pod", "p", "--config", bench.config).code == 2
    assert "--config" in run("explain", "pod", "p", "--snapshot", "f").err


def test_an_invalid_object_is_reported_and_the_rest_is_explained(bench: Bench) -> None:
    shown = bench.explain("p", LARGE, {"apiVersion": "v1", "kind": "Node", "metadata": 3}, pod("p"))
    assert shown.code == 4
    assert shown.out.startswith("default/p: scheduled on large")
    assert "left out" in shown.err
