"""A simulation asks no extender: recorded answers decide, or it says which pods it does not decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.simulating import CONFIGURATION, Bench, Result, node, pod

GPU = "gpu.example.com/cores"
URL = "http://127.0.0.1:1/gpu"
EXTENDER = f"""
extenders:
- urlPrefix: {URL}
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 2
  managedResources: [{{name: {GPU}, ignoredByScheduler: true}}]
"""
GANGS = """
  plugins:
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
    multiPoint: {enabled: [{name: Coscheduling}]}
"""
GROUP = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 2},
}


def gpu_pod(name: str, **fields: Any) -> dict[str, Any]:
    extended = pod(name, cpu=None, **fields)
    extended["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}}
    return extended


def answer(kind: str, name: str, *nodes: str, **fields: Any) -> str:
    call, weight = ("filter", 0) if kind == "filter" else ("prioritize", 2)
    return json.dumps(
        {
            "apiVersion": "secondary-scheduler.io/v1",
            "kind": "ExtenderAnswer",
            "verb": kind,
            "extenders": {f"{URL}/{call}": weight},
            "pod": f"default/{name}",
            "nodes": {node: [] for node in nodes},
            **fields,
        }
    )


def simulated(bench: Bench, lines: list[str], *objects: dict[str, Any]) -> Result:
    recording = bench.write("recording", "\n".join(lines))
    return bench.simulate(*objects, arguments=("--extender-recording", recording))


def test_only_a_pod_that_an_extender_is_interested_in_is_not_simulated(tmp_path: Path) -> None:
    result = Bench(tmp_path, CONFIGURATION + EXTENDER).simulate(node("n1"), gpu_pod("asked"), pod("plain"))
    assert result.code == 0
    assert result.nodes == {"default/asked": None, "default/plain": "n1"}
    assert result.decisions["default/asked"]["message"] == (
        f"not simulated: the extender {URL} is to be asked about default/asked; give --extender-recording"
    )


def test_recorded_answers_decide(tmp_path: Path) -> None:
    lines = [
        "2026-11-23T06:30:00Z [info] a line of the log",
        answer("filter", "asked", "n1", "n2", "n3", kept=["n1", "n2"], failed={"n3": "no GPU"}),
        answer("prioritize", "asked", "n1", "n2", scores={"n2": 1000}),
        answer("filter", "full", "n1", "n2", "n3", failed=dict.fromkeys(("n1", "n2", "n3"), "no GPU")),
    ]
    objects = node("n1"), node("n2"), node("n3"), gpu_pod("asked"), gpu_pod("full")
    result = simulated(Bench(tmp_path, CONFIGURATION + EXTENDER), lines, *objects)
    assert (result.code, result.err) == (0, "")
    assert result.nodes == {"default/asked": "n2", "default/full": None}
    assert result.decisions["default/full"]["message"].startswith("0/3 nodes are available: 3 no GPU.")


def test_what_was_not_recorded_is_not_simulated_and_names_the_extender(tmp_path: Path) -> None:
    lines = [answer("filter", "asked", "n1", kept=["n1"])]
    objects = node("n1"), node("n2"), gpu_pod("asked"), gpu_pod("new"), pod("plain")
    result = simulated(Bench(tmp_path, CONFIGURATION + EXTENDER), lines, *objects)
    prefix = f"not simulated: the recording has no answer of the extender {URL}/filter about"
    assert result.decisions["default/asked"]["message"] == f"{prefix} node n2"
    assert result.decisions["default/new"]["message"] == f"{prefix} this pod"
    assert result.nodes["default/plain"] is not None


def test_a_gang_is_decided_with_recorded_answers_or_not_at_all(tmp_path: Path) -> None:
    labels = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    objects = node("n1"), node("n2"), GROUP, gpu_pod("a", meta=labels), pod("b", meta=labels)
    bench = Bench(tmp_path, CONFIGURATION.rstrip() + GANGS + EXTENDER)
    result = bench.simulate(*objects)
    assert result.nodes == {"default/a": None, "default/b": None}
    assert "pod group default/g: the extender" in result.decisions["default/b"]["message"]
    result = simulated(bench, [answer("filter", "a", "n1", "n2", kept=["n2"])], *objects)
    assert result.nodes["default/a"] == "n2"
    assert result.nodes["default/b"] is not None


def test_a_line_that_is_no_answer_is_reported_and_left_out(tmp_path: Path) -> None:
    lines = [answer("filter", "asked", "n1", kept=["n1"]), answer("filter", "asked", "n1", kept=3), '{"ExtenderAnswer"']
    bench = Bench(tmp_path, CONFIGURATION + EXTENDER)
    result = simulated(bench, lines, node("n1"), gpu_pod("asked"))
    assert result.code == 4
    assert result.nodes == {"default/asked": "n1"}
    assert "document 2 (line 2), ExtenderAnswer: kept: expected `array`".replace("`", "") in result.err
    assert "recording: document 3 (line 3), ExtenderAnswer: " in result.err


def test_a_file_without_answers_is_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CONFIGURATION + EXTENDER)
    result = simulated(bench, ["a log"], node("n1"), gpu_pod("asked"))
    assert "no answer of an extender is recorded there" in result.err
    missing = bench.simulate(node("n1"), arguments=("--extender-recording", tmp_path / "absent"))
    assert missing.code == 4
    assert "absent: No such file" in missing.err
