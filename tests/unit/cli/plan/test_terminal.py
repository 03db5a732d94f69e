"""Hostile text in all that `plan` reads: nothing that a terminal obeys is printed, and data keeps what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.recordings import MadeRecording
from tests.support.simulating import LOAD_AWARE, SCHEDULER, Result, load, node, pod, run
from tests.unit.cli.plan.comparing import Comparer, scoring_by

HOSTILE = "\x1b[2J\x1b]8;;http://evil.example\x07here\x1b]8;;\x1b\\\x9b31m\x85\u202e\u2066\u2028\r\nforged\x07\x7f"
"""A CSI, a link (OSC 8), the same by C1, ends of lines, changes of direction."""
SPREADING, PACKING = scoring_by("LeastAllocated"), scoring_by("MostAllocated")
FORMS = (("-o", "table"), ("-o", "wide"), ("-o", "markdown"), ("--summary",))


@pytest.fixture
def comparer(tmp_path: Path) -> Comparer:
    return Comparer(tmp_path)


def assert_harmless(result: Result, *shown: str) -> None:
    for text in (result.out, result.err):
        assert all(line.isprintable() for line in text.split("\n")), repr(text)
    assert "Traceback" not in result.err
    for text in shown:
        assert text in result.out + result.err, "else the test shows nothing"


def objects() -> list[dict[str, Any]]:
    """A cluster in which every text that is not a type may be anything."""
    first, second = node(f"n1{HOSTILE}", cpu="4"), node(f"n2{HOSTILE}", cpu="4")
    taint = {"key": f"key{HOSTILE}", "value": f"taint{HOSTILE}", "effect": "NoSchedule"}
    tainted = node(f"n3{HOSTILE}", cpu="4")
    tainted["spec"] = {"taints": [taint]}
    for item in (first, second, tainted):
        item["metadata"]["labels"] = {f"label{HOSTILE}": f"value{HOSTILE}"}
        item["metadata"]["annotations"] = {f"annotation{HOSTILE}": f"value{HOSTILE}"}
        condition = {"type": f"Ready{HOSTILE}", "status": "True", "reason": HOSTILE, "message": HOSTILE}
        item["status"]["conditions"] = [condition]
    pods = [pod(f"p{number}{HOSTILE}", cpu="1500m") for number in range(4)]
    pods.append(pod(f"large{HOSTILE}", cpu="3000"))
    asking = pod(f"asking{HOSTILE}", cpu="1")
    asking["spec"]["nodeSelector"] = {f"label{HOSTILE}": f"other{HOSTILE}"}
    for item in (*pods, asking):
        item["metadata"]["annotations"] = {f"annotation{HOSTILE}": f"value{HOSTILE}"}
        item["status"] = {"phase": "Pending", "message": HOSTILE, "reason": HOSTILE}
        item["spec"]["containers"][0]["image"] = f"image{HOSTILE}"
    broken = [{"apiVersion": "v1", "kind": f"Pod{HOSTILE}", "metadata": {"name": f"x{HOSTILE}"}}]
    broken.append(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"y{HOSTILE}"}, "spec": {"containers": HOSTILE}}
    )
    return [first, second, tainted, *pods, asking, *broken]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[-1])
@pytest.mark.parametrize("over", ["pending", "all"])
def test_names_labels_and_messages_of_objects(comparer: Comparer, form: tuple[str, ...], over: str) -> None:
    result = comparer.compare(SPREADING, PACKING, *objects(), arguments=(*form, "--over", over))
    assert_harmless(result, "left out", "forged")
    assert "�[2J" in result.out + result.err


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_data_keeps_what_the_objects_hold(comparer: Comparer, form: str, read: Any) -> None:
    result = comparer.compare(SPREADING, PACKING, *objects(), arguments=("-o", form))
    document = read(result.out)
    assert {entry["node"] for entry in document["nodes"]} == {f"n{number}{HOSTILE}" for number in (1, 2, 3)}
    assert document["differences"]
    assert all(entry["pod"].endswith(HOSTILE) for entry in document["differences"])
    assert all(line.isprintable() for line in result.err.split("\n"))


def edited(change: Any) -> str:
    document = yaml.safe_load(SPREADING)
    change(document, document["profiles"][0])
    return json.dumps(document)


CONFIGURATIONS = {
    "schedulerName": edited(lambda document, profile: profile.update(schedulerName=f"{SCHEDULER}{HOSTILE}")),
    "a plugin": edited(lambda document, profile: profile["plugins"]["score"]["enabled"].append({"name": HOSTILE})),
    "a field": edited(lambda document, profile: profile.update({f"field{HOSTILE}": HOSTILE})),
    "an argument": edited(
        lambda document, profile: profile["pluginConfig"][0]["args"].update({f"x{HOSTILE}": HOSTILE})
    ),
    "a value": edited(
        lambda document, profile: profile["pluginConfig"][0]["args"]["scoringStrategy"].update(type=HOSTILE)
    ),
    "a resource": edited(
        lambda document, profile: profile["pluginConfig"][0]["args"]["scoringStrategy"].update(
            resources=[{"name": f"example.com/x{HOSTILE}", "weight": 1}]
        )
    ),
    "an extender": edited(lambda document, profile: document.update(extenders=[{"urlPrefix": f"https://x{HOSTILE}"}])),
    "the version": edited(
        lambda document, profile: document.update(apiVersion=f"kubescheduler.config.k8s.io/{HOSTILE}")
    ),
    "the kind": edited(lambda document, profile: document.update(kind=HOSTILE)),
    "not YAML": f"a: [{HOSTILE}",
    "a ConfigMap": json.dumps({"kind": "ConfigMap", "metadata": {"name": HOSTILE}, "data": {HOSTILE: HOSTILE}}),
    "a stack": json.dumps({"config": {f"secondary-scheduler:x{HOSTILE}": HOSTILE}}),
}


@pytest.mark.parametrize("form", [("-o", "table"), ("-o", "markdown")], ids=lambda form: form[-1])
@pytest.mark.parametrize("place", CONFIGURATIONS)
def test_configuration_files(comparer: Comparer, place: str, form: tuple[str, ...]) -> None:
    for old, new in ((SPREADING, CONFIGURATIONS[place]), (CONFIGURATIONS[place], SPREADING)):
        result = comparer.compare(old, new, node("n1"), pod("p"), arguments=form)
        assert_harmless(result)
        assert result.out + result.err


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[-1])
def test_series_of_the_load(comparer: Comparer, form: tuple[str, ...]) -> None:
    document = json.loads(load({f"n1{HOSTILE}": 40, "n2": 10}))
    document["source"] = document["window"]["duration"] = HOSTILE
    metrics = document["data"]["NodeMetricsMap"]["n2"]["metrics"]
    metrics += [{"type": HOSTILE, "operator": HOSTILE, "value": HOSTILE}, HOSTILE]
    document["data"]["NodeMetricsMap"][HOSTILE] = HOSTILE
    comparer.load = json.dumps(document)
    items = (node(f"n1{HOSTILE}"), node("n2"), pod("p", cpu="1"))
    result = comparer.compare(LOAD_AWARE, LOAD_AWARE, *items, arguments=form)
    assert_harmless(result, "values that cannot be a load left out")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[-1])
def test_a_recording(tmp_path: Path, form: tuple[str, ...]) -> None:
    first = pod(f"first{HOSTILE}", cpu="3")
    recording = (
        MadeRecording()
        .there(node(f"n1{HOSTILE}"), node("n2"))
        .added(5, first, pod("second", cpu="1"))
        .note(8, "LOST", "Pod", f"lost{HOSTILE}")
        .note(9, "RESUMED", "Pod")
        .note(10, f"ODD{HOSTILE}", f"Pod{HOSTILE}", HOSTILE)
        .deleted(30, first)
    )
    files = {"old.yaml": SPREADING, "new.yaml": PACKING, "recording": recording.text()}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = ("--old", tmp_path / "old.yaml", "--new", tmp_path / "new.yaml")
    assert_harmless(run("plan", *options, "--recording", tmp_path / "recording", *form))
    (tmp_path / "recording").write_text(f"{files['recording']}{HOSTILE}\n")
    assert_harmless(run("plan", *options, "--recording", tmp_path / "recording", *form))


@pytest.mark.parametrize("option", ["--now", "--as-scheduler", "--old", "--snapshot", "--load", "--recording"])
def test_what_was_typed(comparer: Comparer, tmp_path: Path, option: str) -> None:
    text = "x=\x1b[2J\x9b31m\u202e"
    typed = tmp_path / text if option in ("--old", "--snapshot", "--load", "--recording") else text
    result = comparer.compare(SPREADING, SPREADING, node("n1"), pod("p"), arguments=(option, typed))
    assert result.code not in (0, 3)
    assert_harmless(result)
    assert result.err
