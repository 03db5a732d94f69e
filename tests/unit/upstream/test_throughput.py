"""Which workloads of scheduler_perf are measured, and how the results are kept and shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upstream import throughput
from tests.upstream.perf import MODE, main
from tests.upstream.running import Side
from tests.upstream.throughput import LIMIT_SECONDS, RECORDED, Measured, Throughputs
from tests.upstream.workloads import Workload, read

_FILE = """\
- name: Basic
  featureGates: {SchedulerQueueingHints: false}
  workloads:
  - {name: 5Nodes, labels: [integration-test]}
  - {name: 500Nodes, labels: [performance, short]}
  - {name: 5000Nodes, labels: [performance], threshold: 270, featureGates: {SchedulerQueueingHints: true}}
- name: Events
  labels: [performance]
  defaultThresholdMetricSelector: {name: scheduler_event_handling_duration_seconds}
  workloads:
  - {name: 50Nodes, threshold: 1}
"""
_BASIC = Workload("misc", "Basic/500Nodes", None, {})
_LARGE = Workload("misc", "Basic/5000Nodes", 270, {})


def test_only_workloads_that_upstream_measures_are_read(tmp_path: Path) -> None:
    (tmp_path / "performance-config.yaml").write_text(_FILE)
    names = [workload.name for workload in read("misc", tmp_path)]
    assert names == ["Basic/500Nodes", "Basic/5000Nodes", "Events/50Nodes"]


def test_a_package_without_workloads_has_none(tmp_path: Path) -> None:
    assert list(read(".", tmp_path)) == []


def test_a_threshold_of_another_metric_is_not_one_of_the_throughput(tmp_path: Path) -> None:
    (tmp_path / "performance-config.yaml").write_text(_FILE)
    assert [workload.threshold for workload in read("misc", tmp_path)] == [None, 270, None]


def test_a_gate_that_ours_has_otherwise_is_named(tmp_path: Path) -> None:
    (tmp_path / "performance-config.yaml").write_text(_FILE)
    unlike = [workload.unlike_ours("1.34") for workload in read("misc", tmp_path)]
    assert unlike == ["SchedulerQueueingHints=false", "", ""]


def test_a_gate_that_ours_can_set_is_no_obstacle() -> None:
    assert Workload("misc", "Basic/500Nodes", None, {"SchedulerPopFromBackoffQ": False}).unlike_ours("1.34") == ""


def test_a_gate_that_is_on_for_good_is_no_obstacle() -> None:
    gate = "NodeInclusionPolicyInPodTopologySpread"
    assert Workload("misc", "Basic/500Nodes", None, {gate: True}).unlike_ours("1.34") == ""
    assert Workload("misc", "Basic/500Nodes", None, {gate: False}).unlike_ours("1.34") == f"{gate}=false"


def test_only_the_throughput_is_taken_of_what_a_benchmark_writes() -> None:
    items = [
        {"labels": {"Metric": "SchedulingThroughput"}, "data": {"Average": 148.2, "Perc50": 150}},
        {"labels": {"Metric": "scheduler_pod_scheduling_duration_seconds"}, "data": {"Average": 3}},
    ]
    assert list(throughput.rates(items)) == [148.2]


def test_runs_are_read_again_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    Throughputs(file).add("1.34", _BASIC, Side.GO, Measured([148.24], 31, load=2.04))
    assert Throughputs(file).get("1.34", _BASIC, Side.GO) == Measured([148.2], 31, load=2.0)
    assert Throughputs(file).get("1.34", _BASIC, Side.SAFE) is None


def test_the_section_says_how_busy_the_machine_was(tmp_path: Path) -> None:
    results = Throughputs(tmp_path / "results.json")
    results.add("1.34", _LARGE, Side.GO, Measured([100.0], 31, load=2))
    results.add("1.34", _LARGE, Side.SAFE, Measured([150.0], 36, load=5.2))
    assert "two cores at a load of 2 to 5, recorded on" in results.section(Side.SAFE)


def test_the_table_has_ours_beside_the_go_scheduler(tmp_path: Path) -> None:
    results = Throughputs(tmp_path / "results.json")
    results.add("1.34", _LARGE, Side.GO, Measured([100.0], 31))
    results.add("1.34", _LARGE, Side.SAFE, Measured([150.0], 36))
    assert results.table("1.34", Side.SAFE).splitlines()[-1] == "| `Basic/5000Nodes` | 100 | 150 | 1.5 | 270 | 31, 36 |"


def test_a_workload_that_ours_does_not_end_shows_it(tmp_path: Path) -> None:
    results = Throughputs(tmp_path / "results.json")
    results.add("1.34", _BASIC, Side.GO, Measured([100.0], 31))
    results.add("1.34", _BASIC, Side.SAFE, Measured([], LIMIT_SECONDS, ended=False))
    assert "| 100 | does not end | – | – |" in results.table("1.34", Side.SAFE)


def test_what_takes_the_go_scheduler_too_long_is_named_beside_the_table(tmp_path: Path) -> None:
    results = Throughputs(tmp_path / "results.json")
    results.add("1.34", _LARGE, Side.GO, Measured([], LIMIT_SECONDS, ended=False))
    assert _LARGE.name not in results.table("1.34", Side.SAFE)
    section = results.section(Side.SAFE)
    assert f"Not measured, as the Go scheduler does not end it in 600 s: `{_LARGE.name}`." in section


def test_pods_that_have_nodes_before_the_benchmark_looks_give_no_figure(tmp_path: Path) -> None:
    results = Throughputs(tmp_path / "results.json")
    results.add("1.34", _BASIC, Side.GO, Measured([], 31))
    results.add("1.34", _LARGE, Side.GO, Measured([100.0], 31))
    results.add("1.34", _LARGE, Side.SAFE, Measured([], 31))
    assert "| 100 | all within a second | – |" in results.table("1.34", Side.SAFE)
    reason = "the Go scheduler gives all its pods a node within a second"
    assert f"Not measured, as {reason}: `{_BASIC.name}`." in results.section(Side.SAFE)


def test_what_ours_cannot_run_is_listed_with_the_reason(tmp_path: Path) -> None:
    results = Throughputs(tmp_path / "results.json")
    unlike = Workload("misc", "Basic/50Nodes", None, {"SchedulerQueueingHints": False})
    results.know("1.34", [_BASIC, _LARGE, unlike])
    results.add("1.34", _BASIC, Side.GO, Measured([100.0], 31))
    section = results.section(Side.SAFE)
    assert "1 of 2 workloads" in section
    assert "Not measured, as ours cannot set SchedulerQueueingHints=false: `Basic/50Nodes`." in section


def test_a_pattern_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--workloads", "("])
    assert "--workloads: missing )" in capsys.readouterr().err


def test_the_committed_section_shows_what_is_recorded() -> None:
    written = throughput.PAGE.read_text()
    assert throughput.HEADING in written
    assert written == throughput.page(Throughputs(RECORDED), MODE), "run python -m tests.upstream.perf --page"
