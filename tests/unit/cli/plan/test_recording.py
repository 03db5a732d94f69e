"""What `plan` finds when it replays a recording under two configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.recordings import MadeRecording, bound, node_load, time_at
from tests.support.simulating import CONFIGURATION, LOAD_AWARE, Result, node, pod, run
from tests.unit.cli.plan.comparing import scoring_by

SPREADING = scoring_by("LeastAllocated")
PACKING = scoring_by("MostAllocated")


class Replayer:
    """A directory with two configurations and a recording."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, old: str, new: str, recording: MadeRecording | Path, *arguments: str) -> Result:
        for name, text in (("old.yaml", old), ("new.yaml", new)):
            (self.directory / name).write_text(text)
        file = recording if isinstance(recording, Path) else recording.write(self.directory / "cluster.recording")
        configurations = ("--old", self.directory / "old.yaml", "--new", self.directory / "new.yaml")
        return run("plan", *configurations, "--recording", file, *arguments)

    def document(
        self, old: str, new: str, recording: MadeRecording | Path, *arguments: str
    ) -> tuple[int, dict[str, Any]]:
        done = self.run(old, new, recording, *arguments, "-o", "json")
        document: dict[str, Any] = json.loads(done.out)
        return done.code, document


@pytest.fixture
def replayer(tmp_path: Path) -> Replayer:
    return Replayer(tmp_path)


def counts(document: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in document["counts"].items() if count}


def pods_on(document: dict[str, Any], side: str) -> dict[str, int]:
    return {entry["node"]: entry[side]["pods"] for entry in document["nodes"]}


def test_a_deletion_makes_room_for_a_pod_that_waits(replayer: Replayer) -> None:
    first, second = pod("first", cpu="3"), pod("second", cpu="3")
    recording = MadeRecording().there(node("n1")).added(5, first).added(10, second).deleted(30, first)
    code, document = replayer.document(CONFIGURATION, CONFIGURATION, recording)
    assert code == 0
    assert counts(document) == {"pods": 2, "sameNode": 2}
    assert document["new"]["worst"]["waiting"]["value"] == 1
    assert pods_on(document, "new") == {"n1": 1}
    without_deletion = MadeRecording().there(node("n1")).added(5, first).added(10, second)
    _, document = replayer.document(CONFIGURATION, CONFIGURATION, without_deletion)
    assert counts(document) == {"pods": 2, "sameNode": 1, "unschedulableInBoth": 1}


def test_arrivals_see_what_arrived_before_and_the_configurations_place_them_differently(replayer: Replayer) -> None:
    recording = MadeRecording().there(node("n1"), node("n2"))
    for number in range(4):
        recording.added(10 * number, pod(f"p{number}", cpu="500m"))
    code, document = replayer.document(SPREADING, PACKING, recording)
    assert code == 3
    assert document["over"] == "recording"
    assert sorted(pods_on(document, "old").values()) == [2, 2]
    assert sorted(pods_on(document, "new").values()) == [0, 4]
    assert document["recording"]["start"] == time_at(0)
    assert document["recording"]["end"] == time_at(60)


def test_where_the_recording_has_a_pod_decides_nothing_and_is_counted(replayer: Replayer) -> None:
    arriving = [pod(f"p{number}", cpu="500m") for number in range(4)]
    recording = MadeRecording().there(node("n1"), node("n2"))
    for number, item in enumerate(arriving):
        recording.added(10 * number, item).modified(10 * number + 2, bound(item, "n1", 10 * number + 2))
    code, document = replayer.document(SPREADING, PACKING, recording)
    assert code == 3
    assert sorted(pods_on(document, "old").values()) == [2, 2]
    assert document["recording"]["podsOnNodes"] == 4
    assert document["old"]["asRecorded"] == 2
    assert document["new"]["asRecorded"] in (0, 4)


def test_pods_that_ran_when_it_began_stay_and_go_as_recorded(replayer: Replayer) -> None:
    running = bound(pod("running", cpu="3"), "n1", 0)
    arriving = pod("arriving", cpu="3")
    recording = MadeRecording().there(node("n1"), running).added(5, arriving).deleted(20, running)
    _, document = replayer.document(CONFIGURATION, CONFIGURATION, recording)
    assert counts(document) == {"pods": 1, "sameNode": 1}
    assert document["new"]["worst"]["waiting"]["value"] == 1


def test_the_worst_over_time_is_not_what_is_left_at_the_end(replayer: Replayer) -> None:
    arriving = [pod(f"p{number}", cpu="1") for number in range(4)]
    recording = MadeRecording().there(node("n1"), node("n2")).added(10, *arriving).deleted(50, *arriving)
    code, document = replayer.document(SPREADING, PACKING, recording)
    assert code == 3
    for side, worst in (("old", 50.0), ("new", 100.0)):
        assert document[side]["requests"]["cpu"]["max"] == 0
        assert document[side]["worst"]["requests"]["cpu"]["max"]["value"] == worst
        assert time_at(9) <= document[side]["worst"]["requests"]["cpu"]["max"]["time"] <= time_at(50)
    shown = replayer.run(SPREADING, PACKING, recording).out
    assert "WORST OVER TIME, %" in shown
    assert "50.0 → 100.0" in shown
    assert (
        "worst over time: requests of CPU on one node 50 → 100 %"
        in replayer.run(SPREADING, PACKING, recording, "--summary").out
    )


def test_newly_unschedulable_pods_are_named_with_the_reason(replayer: Replayer) -> None:
    data = yaml.safe_load(CONFIGURATION)
    expressions = [{"key": "zone", "operator": "In", "values": ["b"]}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    args = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    data["profiles"][0]["pluginConfig"] = [{"name": "NodeAffinity", "args": args}]
    recording = MadeRecording().there(node("n1")).added(3, pod("a"))
    code, document = replayer.document(CONFIGURATION, yaml.safe_dump(data), recording)
    assert code == 3
    assert counts(document) == {"pods": 1, "newlyUnschedulable": 1}
    (entry,) = document["differences"]
    assert "didn't match scheduler-enforced node affinity" in entry["new"]["message"]


def test_a_load_as_recorded_moves_along_with_the_pods_that_are_placed_elsewhere(replayer: Replayer) -> None:
    arriving = pod("arriving", cpu="2")
    recording = MadeRecording().there(node("n1"), node("n2"), node_load(0, n1=10, n2=10))
    recording.there(bound(pod("old", cpu="1"), "n2", 0))
    recording.added(5, arriving).modified(6, bound(arriving, "n1", 6)).modified(400, node_load(400, n1=60, n2=10))
    file = recording.write(replayer.directory / "cluster.recording", end=401)
    _, document = replayer.document(SPREADING, PACKING, file)
    loads = {entry["node"]: entry for entry in document["nodes"]}
    # 2 of 4 cores are half of the node's capacity: packed, the pod takes them to n2.
    assert document["old"]["asRecorded"] == 1
    assert loads["n1"]["old"]["estimatedLoad"]["cpu"] == 60
    assert loads["n1"]["new"]["estimatedLoad"]["cpu"] == 10
    assert loads["n2"]["new"]["estimatedLoad"]["cpu"] == 60


def test_a_plugin_that_reads_load_reads_the_recorded_one_of_that_time(replayer: Replayer) -> None:
    recording = MadeRecording().there(node("n1"), node("n2"), node_load(0, n1=5, n2=80))
    recording.added(10, pod("early", cpu="100m")).modified(300, node_load(300, n1=80, n2=5))
    recording.added(310, pod("late", cpu="100m"))
    file = recording.write(replayer.directory / "cluster.recording", end=320)
    data = yaml.safe_load(LOAD_AWARE)
    code, document = replayer.document(SPREADING, yaml.safe_dump(data), file)
    assert code in (0, 3)
    # At each time one node is above the target of TargetLoadPacking, and the other below it.
    assert pods_on(document, "new") == {"n1": 1, "n2": 1}


def test_a_later_pod_of_the_same_name_is_another_one(replayer: Replayer) -> None:
    first, second = pod("web-0"), pod("web-0", meta={"uid": "second"})
    recording = MadeRecording().added(1, first).deleted(5, first).added(9, second)
    code, document = replayer.document(CONFIGURATION + "- schedulerName: b\n", CONFIGURATION, recording, "-o", "json")
    assert code == 0
    assert counts(document) == {"pods": 2, "unschedulableInBoth": 2}


def test_a_pod_whose_node_goes_only_in_the_replay_is_placed_again(replayer: Replayer) -> None:
    arriving = pod("arriving", cpu="1")
    recording = MadeRecording().there(node("n1", cpu="2"), node("n2", cpu="8"))
    recording.added(5, arriving).modified(6, bound(arriving, "n2", 6)).deleted(30, node("n1"))
    _, document = replayer.document(SPREADING, PACKING, recording)
    assert counts(document) == {"pods": 1, "sameNode": 1}
    assert pods_on(document, "new") == {"n2": 1}


def test_a_pod_whose_node_goes_in_the_recording_too_is_not_placed_again(replayer: Replayer) -> None:
    arriving = pod("arriving", cpu="1")
    recording = MadeRecording().there(node("n1"))
    recording.added(5, arriving).modified(6, bound(arriving, "n1", 6)).deleted(30, node("n1"))
    recording.added(31, node("n2")).deleted(40, arriving)
    _, document = replayer.document(CONFIGURATION, CONFIGURATION, recording)
    assert counts(document) == {"pods": 1, "sameNode": 1}
    assert pods_on(document, "new") == {"n2": 0}


def test_a_pod_that_was_gated_is_placed_once_its_gate_is_removed(replayer: Replayer) -> None:
    gated = pod("gated", schedulingGates=[{"name": "example.com/quota"}])
    recording = MadeRecording().there(node("n1")).added(1, gated)
    _, document = replayer.document(CONFIGURATION, CONFIGURATION, recording)
    assert counts(document) == {"pods": 1, "unschedulableInBoth": 1}
    recording = MadeRecording().there(node("n1")).added(1, gated).modified(20, pod("gated"))
    _, document = replayer.document(CONFIGURATION, CONFIGURATION, recording)
    assert counts(document) == {"pods": 1, "sameNode": 1}


def test_pods_of_another_scheduler_are_where_they_were_unless_they_are_to_be_placed(replayer: Replayer) -> None:
    other = pod("other", cpu="500m", schedulerName="default-scheduler")
    recording = MadeRecording().there(node("n1"), node("n2")).added(1, other).modified(2, bound(other, "n2", 2))
    done = replayer.run(SPREADING, SPREADING, recording, "-o", "json")
    document = json.loads(done.out)
    assert counts(document) == {}
    assert pods_on(document, "new") == {"n1": 0, "n2": 1}
    assert "no pod of secondary-scheduler waited or arrived" in done.err
    _, document = replayer.document(SPREADING, SPREADING, recording, "--as-scheduler", "default-scheduler")
    assert counts(document) == {"pods": 1, "sameNode": 1}


def test_members_of_a_gang_that_arrive_one_by_one_are_placed_once_there_are_enough(replayer: Replayer) -> None:
    data = yaml.safe_load(CONFIGURATION)
    data["profiles"][0]["plugins"] = {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    }
    gangs = yaml.safe_dump(data)
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"minMember": 3},
    }
    labels = {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}
    recording = MadeRecording().there(node("n1"), group)
    for number in range(2):
        recording.added(5 * number + 1, pod(f"m{number}", meta=labels))
    _, document = replayer.document(gangs, gangs, recording)
    assert counts(document) == {"pods": 2, "unschedulableInBoth": 2}
    recording.added(30, pod("m2", meta=labels))
    _, document = replayer.document(gangs, gangs, recording)
    assert counts(document) == {"pods": 3, "sameNode": 3}


def test_pods_that_waited_at_the_beginning_are_placed_as_over_a_snapshot(replayer: Replayer) -> None:
    objects = [node("n1"), node("n2"), node("n3", cpu="2")]
    waiting = [pod(f"p{number}", cpu="700m", meta={"uid": f"uid-{number}"}) for number in range(9)]
    recording = MadeRecording().there(*objects, *waiting)
    _, replayed = replayer.document(SPREADING, PACKING, recording)
    items = [line["object"] for line in recording.lines]
    snapshot = replayer.directory / "cluster.json"
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    files = ("--old", replayer.directory / "old.yaml", "--new", replayer.directory / "new.yaml")
    document = json.loads(run("plan", *files, "--snapshot", snapshot, "-o", "json").out)
    assert document["counts"]["pods"] == 9
    assert replayed["counts"] == document["counts"]
    assert [(entry["pod"], entry["new"]["node"]) for entry in replayed["differences"]] == [
        (entry["pod"], entry["new"]["node"]) for entry in document["differences"]
    ]


def test_what_the_recording_does_not_hold_is_said(replayer: Replayer) -> None:
    recording = MadeRecording().there(node("n1")).added(1, pod("a")).note(5, "LOST", "Pod", "timed out")
    file = (
        recording.note(9, "RELISTED", "Pod")
        .note(20, "LOST", "NodeLoad", "gone")
        .write(replayer.directory / "cluster.recording", end=None)
    )
    shown = replayer.run(CONFIGURATION, CONFIGURATION, file).out
    assert "Pod: listed again; what happened while the watch was lost is known by its result only" in shown
    assert "NodeLoad: lost, and not found again until the end: gone" in shown
    assert "the last line is missing" in shown


def test_a_line_that_cannot_be_used_is_left_out_with_its_number(replayer: Replayer) -> None:
    file = MadeRecording().there(node("n1")).added(1, pod("a")).write(replayer.directory / "cluster.recording")
    lines = file.read_text().splitlines()
    lines.insert(2, '{"time": "2026-11-25T00:00:00Z", "type": "ADDED", "object": {"kind": 5}}')
    file.write_text("\n".join(lines) + "\n" + lines[1][:40])
    done = replayer.run(CONFIGURATION, CONFIGURATION, file, "-o", "json")
    assert done.code == 4
    assert counts(json.loads(done.out)) == {"pods": 1, "sameNode": 1}
    assert "cluster.recording: document 3 (line 3): " in done.err
    assert "the last line is cut off; left out" in done.err


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is no recording; secondary-scheduler snapshot --record takes one"),
        ('{"apiVersion": "v1", "kind": "List", "items": []}', "is no recording"),
        (
            '{"apiVersion":"secondary-scheduler.io/v1","kind":"ClusterRecording","formatVersion":2,"gitVersion":"",'
            '"start":"2026-11-25T00:00:00Z"}',
            "formatVersion is 2, and this version reads 1",
        ),
    ],
)
def test_another_file_is_refused(replayer: Replayer, content: str, problem: str) -> None:
    file = replayer.directory / "cluster.recording"
    file.write_text(content)
    done = replayer.run(CONFIGURATION, CONFIGURATION, file)
    assert (done.code, done.out) == (4, "")
    assert problem in done.err


def test_a_recording_in_place_of_a_snapshot_is_named_as_such(replayer: Replayer) -> None:
    file = MadeRecording().there(node("n1")).write(replayer.directory / "cluster.json")
    replayer.run(CONFIGURATION, CONFIGURATION, file)
    files = ("--old", replayer.directory / "old.yaml", "--new", replayer.directory / "new.yaml")
    done = run("plan", *files, "--snapshot", file)
    assert (done.code, done.out) == (4, "")
    assert "cluster.json: is a recording, not a snapshot; plan takes it with --recording" in done.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "give --snapshot, or --recording"),
        (("--snapshot", "x", "--over", "recording"), "--over recording: give --recording in place of --snapshot"),
        (("--snapshot", "x", "--recording", "y"), "--recording and --snapshot exclude each other"),
        (("--recording", "y", "--load", "x"), "--recording and --load exclude each other"),
        (("--recording", "y", "--now", "5"), "--recording and --now exclude each other"),
        (("--recording", "y", "--over", "all"), "--over all: of a snapshot; a recording is replayed"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...], problem: str) -> None:
    done = run("plan", "--old", "a", "--new", "b", *arguments)
    assert done.code == 2
    assert problem in done.err
