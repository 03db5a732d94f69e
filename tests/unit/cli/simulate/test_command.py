"""What `simulate` decides and prints: form of the output, order, times, load, --pod, --detail, --preempt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.simulating import CONFIGURATION, LOAD_AWARE, Bench, load, node, pod, run


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def load_aware(tmp_path: Path) -> Bench:
    return Bench(tmp_path, LOAD_AWARE)


# The output -----------------------------------------------------------------------------------------------------------


def test_the_result_has_exactly_the_documented_form(load_aware: Bench) -> None:
    measured = load_aware.write("load.json", load({"n1": 20, "n2": 60}))
    result = load_aware.simulate(
        node("n1"), node("n2"), node("n3", unschedulable=True), pod("a", cpu="0"), arguments=("--load", measured)
    )
    assert result.code == 0
    assert json.loads(result.out) == {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "SimulationResult",
        "decisions": [
            {
                "pod": "default/a",
                "schedulerName": "secondary-scheduler",
                "node": "n1",
                "message": None,
                "nodes": {
                    "n1": {
                        "feasible": True,
                        "filter": None,
                        # 40 + 60 * 20 / 40
                        "scores": {"TargetLoadPacking": {"raw": 70, "normalized": 70, "weighted": 70}},
                        "total": 70,
                    },
                    "n2": {
                        "feasible": True,
                        "filter": None,
                        # 40 * (100 - 60) / 60
                        "scores": {"TargetLoadPacking": {"raw": 27, "normalized": 27, "weighted": 27}},
                        "total": 27,
                    },
                    "n3": {
                        "feasible": False,
                        "filter": {
                            "plugin": "NodeUnschedulable",
                            "code": "UnschedulableAndUnresolvable",
                            "reasons": ["node(s) were unschedulable"],
                        },
                        "scores": {},
                        "total": 0,
                    },
                },
            }
        ],
    }


def test_an_only_feasible_node_has_scores_too(bench: Bench) -> None:
    result = bench.simulate(node("n1"), node("n2", unschedulable=True), pod("a"))
    shown = result.decisions["default/a"]["nodes"]["n1"]
    assert shown["scores"]["NodeResourcesFit"]["raw"] > 0
    assert shown["total"] == sum(score["weighted"] for score in shown["scores"].values())


def test_yaml_says_the_same_as_json(bench: Bench) -> None:
    objects = (node("n1"), node("n2"), pod("a"), pod("b", cpu="50"))
    as_json = bench.simulate(*objects)
    as_yaml = bench.simulate(*objects, arguments=("-o", "yaml"))
    assert yaml.safe_load(as_yaml.out) == json.loads(as_json.out)
    nothing = bench.simulate(node("n1"), arguments=("-o", "yaml"))
    assert yaml.safe_load(nothing.out)["decisions"] == []


def test_the_table_is_the_default_and_wide_adds_scores(bench: Bench) -> None:
    snapshot = bench.write("s.json", json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n1"), pod("a")]}))
    table = run("simulate", "--config", bench.config, "--snapshot", snapshot)
    lines = [line.split() for line in table.out.splitlines()]
    assert lines == [["POD", "NODE", "SCORE", "FEASIBLE", "MESSAGE"], ["default/a", "n1", "-", "1/1"]]
    wide = run("simulate", "--config", bench.config, "--snapshot", snapshot, "-o", "wide")
    assert "NodeResourcesFit=" in wide.out.splitlines()[1]


@pytest.mark.parametrize(("detail", "shown"), [("none", []), ("top:1", ["n2"]), ("top:9", ["n2", "n1"])])
def test_detail_limits_the_nodes_shown(load_aware: Bench, detail: str, shown: list[str]) -> None:
    measured = load_aware.write("load.json", load({"n1": 10, "n2": 39, "n3": 0}))
    objects = (node("n1"), node("n2"), node("n3", unschedulable=True), pod("a", cpu="0"))
    result = load_aware.simulate(*objects, arguments=("--load", measured, "--detail", detail))
    assert list(result.decisions["default/a"]["nodes"]) == shown
    assert result.nodes == {"default/a": "n2"}


def test_messages_are_those_of_kube_scheduler_with_the_preemption_part(bench: Bench) -> None:
    result = bench.simulate(node("n1"), node("n2", unschedulable=True), pod("a", cpu="50"))
    assert result.decisions["default/a"]["node"] is None
    assert result.decisions["default/a"]["message"] == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


def test_a_limit_tells_the_share_of_each_node_or_that_it_stepped_back(tmp_path: Path) -> None:
    metrics = {name: watched(cpu) for name, cpu in (("n1", 90.0), ("n2", 80.0))}
    end = 1_700_000_000
    document = {"timestamp": end, "window": {"start": end - 900, "end": end}, "data": {"NodeMetricsMap": metrics}}
    loads = tmp_path / "load.json"
    loads.write_text(json.dumps(document))
    objects = (node("n1"), node("n2"), pod("a", cpu="400m"))
    reason = "node predicted CPU utilization exceeds the HighLoadFilter threshold"
    rejecting = Bench(tmp_path, LIMITED.format("reject")).simulate(*objects, arguments=("--load", loads))
    decision = rejecting.decisions["default/a"]
    assert f"2 {reason} (90.0% to 100.0%, threshold 60%)" in decision["message"]
    assert decision["nodes"]["n2"]["filter"]["reasons"] == [f"{reason} (90.0%, threshold 60%)"]
    assert "Cluster Autoscaler and Karpenter" in rejecting.err
    stepping_back = Bench(tmp_path, LIMITED.format("leaveOut")).simulate(*objects, arguments=("--load", loads))
    decision = stepping_back.decisions["default/a"]
    assert decision["node"] in ("n1", "n2")
    assert decision["remark"] == (
        f"HighLoadFilter stepped back, as no other node was left: 2 {reason} (90.0% to 100.0%, threshold 60%)"
    )


def watched(cpu: float) -> dict[str, Any]:
    metric = {"name": "", "operator": "AVG", "rollup": "15m"}
    return {"metrics": [{**metric, "type": "CPU", "value": cpu}, {**metric, "type": "Memory", "value": 10.0}]}


LIMITED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins: {{preFilter: {{enabled: [{{name: HighLoadFilter}}]}}, filter: {{enabled: [{{name: HighLoadFilter}}]}}}}
  pluginConfig:
  - {{name: HighLoadFilter, args: {{watcherAddress: "http://w:2020", usageThresholds: {{cpu: 60}}}}}}
  - {{name: SecondarySchedulerOptions, args: {{load: {{limit: {{whenAllExceed: {0}}}}}}}}}
"""


def test_a_prefilter_rejection_stands_on_every_node(bench: Bench) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}
    result = bench.simulate(node("n1"), node("n2"), pod("a", volumes=[volume]))
    decision = result.decisions["default/a"]
    assert decision["message"].startswith('0/2 nodes are available: persistentvolumeclaim "absent" not found.')
    filters = [shown["filter"] for shown in decision["nodes"].values()]
    assert len(filters) == 2
    assert all(entry["reasons"] == ['persistentvolumeclaim "absent" not found'] for entry in filters)


def test_no_nodes_is_said_as_upstream_says_it(bench: Bench) -> None:
    assert bench.simulate(pod("a")).decisions["default/a"]["message"] == "no nodes available to schedule pods"


# Which pods, in which order -------------------------------------------------------------------------------------------


def test_pods_are_decided_by_priority_then_age_then_place_in_the_files(bench: Bench) -> None:
    def aged(name: str, created: str, priority: int = 0) -> dict[str, Any]:
        meta = {"uid": name, "creationTimestamp": created}
        return pod(name, meta=meta, priority=priority)

    result = bench.simulate(
        node("n1"),
        pod("new-2"),
        pod("new-1"),
        aged("younger", "2026-01-02T00:00:00Z"),
        aged("older", "2026-01-01T00:00:00Z"),
        aged("urgent", "2026-01-03T00:00:00Z", 10),
    )
    assert list(result.nodes) == [f"default/{name}" for name in ("urgent", "older", "younger", "new-2", "new-1")]


def test_each_pod_sees_the_earlier_ones_placed(bench: Bench) -> None:
    result = bench.simulate(node("n1"), node("n2"), *(pod(name, cpu="3") for name in "abc"))
    assert sorted(str(result.nodes[f"default/{name}"]) for name in "ab") == ["n1", "n2"]
    assert result.decisions["default/c"]["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_bound_pods_occupy_and_ended_or_foreign_ones_do_not_count(bench: Bench) -> None:
    ended = {**pod("ended", cpu="4", nodeName="n1"), "status": {"phase": "Succeeded"}}
    result = bench.simulate(
        node("n1"),
        pod("bound", cpu="3", nodeName="n1", schedulerName="default-scheduler"),
        ended,
        pod("foreign", schedulerName="default-scheduler"),
        pod("a", cpu="1"),
        pod("b", cpu="1"),
    )
    assert result.nodes == {"default/a": "n1", "default/b": None}


def test_gated_and_deleted_pods_get_no_node_and_say_why(bench: Bench) -> None:
    deleted = pod("deleted", meta={"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"})
    gated = pod("gated", schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}])
    decisions = bench.simulate(node("n1"), gated, deleted).decisions
    assert decisions["default/gated"] == {
        "pod": "default/gated",
        "schedulerName": "secondary-scheduler",
        "node": None,
        "message": "waiting for scheduling gates: [example.com/a example.com/b]",
        "nodes": {},
    }
    assert decisions["default/deleted"]["message"] == "skip schedule deleting pod: default/deleted"


def test_the_seed_decides_ties_and_nothing_else(bench: Bench) -> None:
    objects = (*(node(f"n{number}") for number in range(8)), pod("a"))
    picks = {seed: bench.simulate(*objects, arguments=("--seed", str(seed))).nodes["default/a"] for seed in range(12)}
    again = {seed: bench.simulate(*objects, arguments=("--seed", str(seed))).nodes["default/a"] for seed in range(12)}
    assert picks == again
    assert len(set(picks.values())) > 2


def test_one_more_pod_is_decided_under_any_scheduler_name_where_there_is_one_profile(bench: Bench) -> None:
    extra = bench.write("pod.yaml", yaml.safe_dump(pod("extra", schedulerName="other", cpu="3")))
    result = bench.simulate(node("n1"), pod("first", cpu="2"), arguments=("--pod", extra))
    assert result.nodes == {"default/first": "n1", "default/extra": None}
    assert result.decisions["default/extra"]["schedulerName"] == "secondary-scheduler"


def test_one_more_pod_replaces_the_one_of_its_name(bench: Bench) -> None:
    extra = bench.write("pod.yaml", yaml.safe_dump(pod("a", cpu="1")))
    result = bench.simulate(node("n1"), pod("a", cpu="50"), arguments=("--pod", extra))
    assert result.nodes == {"default/a": "n1"}
    assert "Pod default/a replaces" in result.err


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (yaml.safe_dump(node("n2")), "holds Node; it takes one Pod"),
        (yaml.safe_dump_all([pod("a"), pod("b")]), "holds Pod, Pod; it takes one Pod"),
        ("", "holds nothing usable"),
        (yaml.safe_dump(pod("a", nodeName="n1")), "has a node already; clear spec.nodeName"),
    ],
)
def test_a_pod_file_that_is_not_one_free_pod_is_refused(bench: Bench, content: str, problem: str) -> None:
    extra = bench.write("pod.yaml", content)
    result = bench.simulate(node("n1"), arguments=("--pod", extra))
    assert (result.code, result.out) == (4, "")
    assert problem in result.err


def test_of_several_profiles_each_decides_its_own_pods(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CONFIGURATION + "- schedulerName: other\n")
    result = bench.simulate(node("n1"), pod("a"), pod("b", schedulerName="other"), pod("c", schedulerName="third"))
    assert [(entry["pod"], entry["schedulerName"]) for entry in result.decisions.values()] == [
        ("default/a", "secondary-scheduler"),
        ("default/b", "other"),
    ]
    extra = bench.write("pod.yaml", yaml.safe_dump(pod("d", schedulerName="third")))
    refused = bench.simulate(node("n1"), arguments=("--pod", extra))
    assert refused.code == 4
    assert "third is no profile of the configuration: it has secondary-scheduler, other" in refused.err


# Preemption -----------------------------------------------------------------------------------------------------------


def test_preemption_is_carried_out_only_when_asked_for(bench: Bench) -> None:
    objects = (
        node("n1"),
        pod("small", cpu="3", nodeName="n1", priority=1),
        pod("large", cpu="3", priority=1000),
        pod("last", cpu="2", priority=-1),
    )
    result = bench.simulate(*objects)
    assert result.nodes == {"default/large": None, "default/last": None}
    assert result.decisions["default/large"]["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert "victims" not in result.decisions["default/large"]
    done = bench.simulate(*objects, arguments=("--preempt",))
    assert done.nodes == {"default/large": "n1", "default/last": None}
    assert done.decisions["default/large"]["victims"] == ["default/small"]
    assert done.decisions["default/large"]["nodes"]["n1"]["feasible"]


# Times and load -------------------------------------------------------------------------------------------------------

DAY = 86400
NOON = 1767268800  # 2026-01-01T12:00:00Z


@pytest.mark.parametrize(
    ("end", "timestamp", "now", "used"),
    [
        pytest.param(NOON, NOON, None, True, id="now is the window's end"),
        pytest.param(0, 0, None, True, id="a load without time is fresh"),
        pytest.param(NOON, NOON, "2026-01-01T12:04:59Z", True, id="five minutes are not too old"),
        pytest.param(NOON, NOON, "2026-01-01T12:05:01Z", False, id="more are"),
        pytest.param(NOON, NOON, str(NOON + 301), False, id="seconds since 1970"),
        pytest.param(0, NOON - 301, None, False, id="without a window now is the newest time of the snapshot"),
    ],
)
def test_the_time_of_the_decisions(load_aware: Bench, end: int, timestamp: int, now: str | None, used: bool) -> None:
    measured = load_aware.write("load.json", load({"n1": 20}, end=end, timestamp=timestamp))
    newest = pod("running", nodeName="n1", meta={"uid": "u", "creationTimestamp": "2026-01-01T12:00:00Z"})
    arguments = ("--load", measured, *(("--now", now) if now is not None else ()))
    result = load_aware.simulate(node("n1"), newest, pod("a"), arguments=arguments)
    assert ("TargetLoadPacking" in result.decisions["default/a"]["nodes"]["n1"]["scores"]) is used


def test_a_snapshot_may_bring_its_load_and_a_load_file_goes_before_it(load_aware: Bench) -> None:
    carried = {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "NodeLoad",
        "metadata": {"name": "nodes"},
        **json.loads(load({"n1": 40, "n2": 0}, end=NOON, timestamp=NOON)),
    }
    objects = (node("n1"), node("n2"), pod("a", cpu="0"), carried)
    assert load_aware.simulate(*objects).nodes == {"default/a": "n1"}
    measured = load_aware.write("load.json", load({"n1": 0, "n2": 40}, end=NOON, timestamp=NOON))
    assert load_aware.simulate(*objects, arguments=("--load", measured)).nodes == {"default/a": "n2"}


def test_pods_placed_in_the_simulation_count_as_not_yet_measured(load_aware: Bench) -> None:
    measured = load_aware.write("load.json", load({"n1": 39, "n2": 38}, end=NOON, timestamp=NOON))
    result = load_aware.simulate(
        node("n1"), node("n2"), pod("a", cpu="20m"), pod("b", cpu="100m"), arguments=("--load", measured)
    )
    # The first brings n1 to 39.75 %; with it, the second would exceed the target of 40 % there.
    assert result.nodes == {"default/a": "n1", "default/b": "n2"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "load.json"),
        ('{"data":{"NodeMetricsMap":[]}}', "data.NodeMetricsMap"),
        ("[]", "load.json"),
    ],
)
def test_a_load_that_is_not_a_load_watchers_answer_is_refused(load_aware: Bench, content: str, problem: str) -> None:
    measured = load_aware.write("load.json", content)
    result = load_aware.simulate(node("n1"), pod("a"), arguments=("--load", measured))
    assert (result.code, result.out) == (4, "")
    assert problem in result.err
    assert result.err.count("\n") == 1


def test_a_metric_that_is_none_is_left_out_and_told(load_aware: Bench) -> None:
    wrong = '{"data":{"NodeMetricsMap":{"n1":{"metrics":[{"type":"CPU","operator":"AVG","value":"42"}]}}}}'
    result = load_aware.simulate(node("n1"), pod("a"), arguments=("--load", load_aware.write("load.json", wrong)))
    assert result.code == 0
    assert "values that cannot be a load left out: watcher: 1" in result.err
    assert "42" in result.err


def test_a_load_without_metrics_is_no_load(load_aware: Bench) -> None:
    measured = load_aware.write("load.json", '{"timestamp": 1.5, "unknown": [], "window": null}')
    result = load_aware.simulate(node("n1"), pod("a"), arguments=("--load", measured))
    assert result.nodes == {"default/a": "n1"}
    assert result.decisions["default/a"]["nodes"]["n1"]["scores"] == {}


# Usage ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("--detail", "top:0"),
        ("--detail", "some"),
        ("--now", "yesterday"),
        ("--now", "nan"),
        ("--seed", "x"),
        ("-o", "xml"),
        ("--unknown",),
    ],
)
def test_a_usage_mistake_exits_2_and_prints_no_result(bench: Bench, arguments: tuple[str, ...]) -> None:
    result = bench.simulate(node("n1"), arguments=arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err


def test_a_configuration_that_is_wrong_exits_4_with_its_problems(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CONFIGURATION + "  plugins: {score: {enabled: [{name: NoSuchPlugin}]}}\nunknown: 1\n")
    result = bench.simulate(node("n1"))
    assert (result.code, result.out) == (4, "")
    assert "NoSuchPlugin" in result.err
    assert "unknown" in result.err
    missing = run("simulate", "--config", tmp_path / "absent.yaml", "--snapshot", bench.config)
    assert (missing.code, missing.err.count("\n")) == (4, 1)


def test_a_profile_named_default_scheduler_is_simulated(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CONFIGURATION.replace("secondary-scheduler", "default-scheduler"))
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
    assert bench.simulate(node("n1"), plain).nodes == {"default/a": "n1"}


def test_simulating_imports_no_client_and_no_http(bench: Bench) -> None:
    snapshot = bench.write("s.json", json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n1"), pod("a")]}))
    code = (
        "import sys; from secondary_scheduler.cli.app import main\n"
        f"sys.argv = ['x', 'simulate', '--config', {str(bench.config)!r}, '--snapshot', {str(snapshot)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'aiohttp', 'requests', 'kubernetes', 'rich', 'structlog', 'prometheus_client'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "default/a" in result.stdout
