"""What `rebalance plan` prints and exits with, on files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.rebalancing import NOW, Object, Scene, metrics, one_hot_node
from tests.support.simulating import LOAD_AWARE, Result, load, run


class Planner:
    """A directory with a configuration and a page model's files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = self.write("config.yaml", LOAD_AWARE)

    def write(self, name: str, content: str) -> Path:
        path = self.directory / name
        path.write_text(content)
        return path

    def plan(self, scene: Scene, *arguments: str | Path) -> Result:
        items = {"apiVersion": "v1", "kind": "List", "items": scene.objects}
        measured = self.write("load.json", load(dict(scene.cpu), end=NOW, timestamp=NOW))
        snapshot = self.write("snapshot.json", json.dumps(items))
        return run("rebalance", "plan", "--config", self.config, "--snapshot", snapshot, "--load", measured, *arguments)

    def document(self, scene: Scene, *arguments: str | Path) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.plan(scene, "-o", "json", *arguments).out)
        return document


@pytest.fixture
def planner(tmp_path: Path) -> Planner:
    return Planner(tmp_path)


def test_a_move_is_exit_code_3_and_says_everything_about_itself(planner: Planner) -> None:
    scene = one_hot_node().with_objects(metrics("hot-0", cpu="1200m"))
    done = planner.plan(scene, "-o", "json")
    assert done.code == 3
    document = json.loads(done.out)
    assert (document["apiVersion"], document["kind"]) == ("secondary-scheduler.io/v1", "RebalancePlan")
    (move,) = document["moves"]
    assert (move["round"], move["pod"], move["uid"]) == (1, "default/hot-0", "uid-hot-0")
    assert move["workload"] == {"kind": "ReplicaSet", "namespace": "default", "name": "web"}
    assert move["from"] == {
        "node": "n0",
        "load": {"before": {"cpu": 95.0, "memory": None}, "after": {"cpu": 65.0, "memory": None}},
    }
    assert move["to"]["load"] == {"before": {"cpu": 20.0, "memory": None}, "after": {"cpu": 50.0, "memory": None}}
    assert move["gain"]["plugins"] == {"TargetLoadPacking": move["gain"]["total"]}
    assert move["gain"]["total"] >= move["gain"]["minimum"] > 0
    assert move["share"]["source"] == "PodMetrics"
    assert move["share"]["cpuMillicores"] == 1200
    assert move["forbidsNext"].startswith("its node is not overloaded: n0")
    assert document["before"]["overloaded"] == ["n0"]
    assert document["after"]["overloaded"] == []
    assert document["before"]["spread"]["cpu"] > document["after"]["spread"]["cpu"]
    assert {entry["reason"]: entry["pods"] for entry in document["notMoved"]} == {"nodeNotOverloaded": 3}
    assert [text.partition(":")[0] for text in document["assumptions"]][:2] == ["no history", "no scheduler was asked"]


def test_no_move_is_exit_code_0(planner: Planner) -> None:
    done = planner.plan(one_hot_node(hot=50.0))
    assert done.code == 0
    assert done.out.startswith("no moves: no node is overloaded (cpu above 80 %)\n")


def test_the_table_is_for_people(planner: Planner) -> None:
    done = planner.plan(one_hot_node(pods=2), "-o", "wide", "--rounds", "3")
    lines = done.out.splitlines()
    assert lines[0] == "2 moves in 3 rounds: 1 overloaded node (cpu above 80 %): n0; 0 after it"
    assert lines[1].startswith("load of the nodes, standard deviation: cpu 32.5 → ")
    assert lines[3].split()[:4] == ["ROUND", "POD", "FROM", "TO"]
    assert "95 → 82" in lines[4]
    assert "TargetLoadPacking=+" in lines[4]
    assert "500m by requests" in lines[4]
    assert any(line.startswith("PODS THAT STAY") for line in lines)
    assert any(line.startswith("assumed: no history") for line in lines)


def test_why_nothing_is_moved_is_in_the_table(planner: Planner) -> None:
    done = planner.plan(one_hot_node(others=90.0))
    assert done.code == 0
    assert "nothing is moved (rule 2): no node has room: none is below all thresholds (cpu 50 %)" in done.out


def test_yaml_says_the_same_as_json(planner: Planner) -> None:
    scene = one_hot_node()
    assert yaml.safe_load(planner.plan(scene, "-o", "yaml").out) == planner.document(scene)


def test_settings_come_from_a_file(planner: Planner) -> None:
    settings = planner.write("settings.yaml", "targetThresholds: {cpu: 97, memory: 99}\n")
    assert planner.plan(one_hot_node(), "--settings", settings).code == 0
    empty = planner.write("empty.yaml", "# the defaults\n")
    assert planner.plan(one_hot_node(), "--settings", empty).code == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour: red\n", 'colour: unknown field "colour"'),
        ("minReplicas: two\n", 'minReplicas: must be an integer, not "two"'),
        ("thresholds: {cpu: 120, memory: 60}\n", "thresholds.cpu: must be at most 100, not 120"),
        ("thresholds: {cpu: .nan, memory: 60}\n", "unsupported value: .nan: JSON has no such number"),
        ("thresholds: {cpu: 50}\n", "thresholds.memory: must be in thresholds and in targetThresholds, or in neither"),
        ("targetThresholds: {cpu: 40, memory: 90}\n", "thresholds.cpu: must not be above targetThresholds (40)"),
        ("useDeviationThresholds: true\n", "useDeviationThresholds: needs thresholds and targetThresholds"),
        ("evictionLimits: {workload: 200%}\n", "evictionLimits.workload: '200%' is neither"),
        ("evictionLimits: {total: -1}\n", "evictionLimits.total: must be at least 0, not -1"),
        ("minReplicas: 0\n", "minReplicas: must be at least 1, not 0"),
        ("maxCooldownSeconds: 60\n", "maxCooldownSeconds: must be at least cooldownSeconds (900)"),
        (
            "podSelector: {matchExpressions: [{key: a, operator: Near}]}\n",
            'podSelector.matchExpressions.0.operator: "Near" is not allowed; allowed: In, NotIn, ',
        ),
        ("[1, 2]\n", "settings: must be a map, not a list"),
        ("a: 1\n---\nb: 2\n", "holds 2 documents"),
        ("{", "settings.yaml"),
    ],
)
def test_settings_that_cannot_be_used_are_a_line_each_with_the_field(planner: Planner, text: str, message: str) -> None:
    settings = planner.write("settings.yaml", text)
    done = planner.plan(one_hot_node(), "--settings", settings)
    assert done.code == 4
    assert done.out == ""
    lines = done.err.splitlines()
    assert any(message in line for line in lines)
    assert all("settings.yaml" in line for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--prometheus", "https://prometheus.example.com"),
        ("--kubeconfig", "kubeconfig"),
        ("--context", "prod"),
        ("--rounds", "0"),
        ("--rounds", "101"),
        ("--now", "yesterday"),
    ],
)
def test_options_that_contradict_each_other_are_refused(planner: Planner, arguments: tuple[str, ...]) -> None:
    assert planner.plan(one_hot_node(), *arguments).code == 2


def test_a_file_alone_is_no_snapshot(planner: Planner) -> None:
    done = run("rebalance", "plan", "--config", planner.config, "more.yaml")
    assert done.code == 2
    assert "name the first file of a snapshot with --snapshot" in done.err


def hostile() -> list[Object]:
    """Objects that no cluster should have, each with a name of its own."""
    pods = [
        {"annotations": {"karpenter.sh/do-not-disrupt": "9" * 4000 + "h"}},
        {"annotations": {"secondary-scheduler.io/rebalance": 5}},
        {"ownerReferences": [{"kind": "ReplicaSet", "name": "\x1b[31mred", "controller": True}]},
        {"ownerReferences": "many"},
    ]
    status = one_hot_node().objects[4]["status"]
    containers = [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]
    spec = {"schedulerName": "secondary-scheduler", "nodeName": "n0", "containers": containers}
    objects: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"hostile-{number}", "uid": f"h{number}", "namespace": "default", **meta},
            "spec": spec,
            "status": status,
        }
        for number, meta in enumerate(pods)
    ]
    objects += [
        {**metrics("hot-0", cpu="nonsense"), "metadata": {"name": "m1", "namespace": "default"}},
        {**metrics("hot-0", cpu="1"), "timestamp": "never", "metadata": {"name": "m2", "namespace": "default"}},
        {**metrics("hot-0", cpu="9" * 400), "metadata": {"name": "m3", "namespace": "default"}},
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "huge", "namespace": "default"},
            "spec": {"replicas": 10**30},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "text", "namespace": "default"},
            "spec": {"replicas": "three"},
        },
    ]
    return objects


def test_what_is_wrong_with_a_snapshot_is_a_line_each_and_the_rest_is_planned(planner: Planner) -> None:
    done = planner.plan(one_hot_node().with_objects(*hostile()), "-o", "wide")
    assert done.code == 4
    assert "default/hot-0  n0" in done.out
    assert "\x1b" not in done.out + done.err
    assert "Traceback" not in done.err
    lines = [line for line in done.err.splitlines() if "left out" in line]
    assert len(lines) >= 5
    assert all(len(line) < 500 for line in done.err.splitlines())


def test_a_snapshot_without_load_says_so(planner: Planner, tmp_path: Path) -> None:
    snapshot = planner.write(
        "s.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": one_hot_node().objects})
    )
    done = run("rebalance", "plan", "--config", planner.config, "--snapshot", snapshot)
    assert done.code == 0
    assert "nothing is moved (rule 3): no load of any node" in done.out


def test_a_configuration_that_reads_no_load_still_plans_by_the_nodes_load(planner: Planner) -> None:
    planner.config = planner.write("config.yaml", LOAD_AWARE.split("  plugins:")[0])
    document = planner.document(one_hot_node())
    assert document["before"]["overloaded"] == ["n0"]
