"""The race without racing: scenarios, figures, ratios, reports."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.harness.contestants import NULL, OURS, PEER, configuration, interpreter
from benchmarks.harness.figures import percentile
from benchmarks.harness.objects import pod_template
from benchmarks.harness.scenario import (
    ROLE,
    CreatePods,
    RatioBound,
    Render,
    Scenario,
    ScenarioError,
    choose,
    load,
    resolved,
    with_params,
)
from benchmarks.race import report
from benchmarks.race.command import main
from benchmarks.race.report import (
    ContestantRun,
    RaceRound,
    drain_rate,
    excesses,
    figures,
    ratios,
    share_of_null_binder,
    shortfalls,
)
from scheduler.config import load_configuration
from scheduler.kube.primitives import quantity_milli_value

SCENARIOS = load()
WORKLOADS = [(scenario, workload) for scenario in SCENARIOS.values() for workload in scenario.workloads]
NAMES = [f"{scenario.name}/{workload.name}" for scenario, workload in WORKLOADS]


def run(drain: float, **more: float) -> ContestantRun:
    return ContestantRun(figures={"drain_rate": drain, **more}, curve=[(1.0, 1.0), (2.0, 10.0)])


def rounds(*pairs: tuple[float, float]) -> list[RaceRound]:
    return [
        RaceRound(
            number=number,
            key="k",
            load_before=0.0,
            stolen_seconds=0.0,
            runs={OURS: run(ours, latency_p99=10.0), PEER: run(peer, latency_p99=20.0), NULL: run(ours * 2)},
        )
        for number, (ours, peer) in enumerate(pairs, 1)
    ]


@pytest.mark.parametrize(("scenario", "workload"), WORKLOADS, ids=NAMES)
def test_every_workload_has_its_parameters_and_room_for_its_pods(scenario, workload):
    operations = resolved(scenario, workload)
    placed = sum(
        int(operation.count) for operation in operations if isinstance(operation, CreatePods) and operation.placed
    )
    assert placed == sum(
        workload.params["init"] for operation in scenario.workload_template if getattr(operation, "placed", False)
    ), "a cluster is as full as its name for the parameter says"
    assert {"nodes", "pods"} <= workload.params.keys()


def test_the_null_binder_makes_as_much_room_as_a_preemptor_needs():
    for workload in SCENARIOS["Preemption"].workloads:
        templates = SCENARIOS["Preemption"].templates
        low, high = (
            templates[name]["spec"]["containers"][0]["resources"]["requests"]["cpu"] for name in ("low", "high")
        )
        free = 4000 - quantity_milli_value(low) * workload.params["init"] // workload.params["nodes"]
        victims = -(-(quantity_milli_value(high) - free) // quantity_milli_value(low))
        assert workload.params["victims"] == victims, workload.name


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_our_configuration_reader_takes_the_configuration_of_all_contestants(scenario, tmp_path):
    text = json.dumps(configuration(scenario, tmp_path / "kubeconfig", "http://127.0.0.1:1"))
    try:
        scenario.require_implemented()
    except ScenarioError:
        # Refused in the race with the same reason.
        return
    loaded = load_configuration(text, source="race")
    assert list(loaded.scheduler_names) == ["race"]


def test_every_scenario_that_is_promised_exists_at_5000_nodes():
    wanted = [
        "SchedulingBasic",
        "NodeAffinity",
        "PodAntiAffinity",
        "PodAffinity",
        "PreferredPodAffinity",
        "TopologySpreading",
        "PreferredTopologySpreading",
        "MixedSchedulingBasePod",
        "Unschedulable",
        "Preemption",
        "TargetLoadPacking",
        "Gangs",
        "NodeResourceTopology",
        "FullCluster",
    ]
    assert set(wanted) <= SCENARIOS.keys()
    for name in wanted:
        assert {5000, 1000, 500, 100} <= {workload.params["nodes"] for workload in SCENARIOS[name].workloads}


def test_a_scenario_is_chosen_by_name_label_and_size():
    [(scenario, workload)] = choose(SCENARIOS, ["schedulingbasic"], label="smoke", nodes=None)
    assert (scenario.name, workload.params["nodes"], workload.params["pods"]) == ("SchedulingBasic", 200, 400)
    [(_, named)] = choose(SCENARIOS, ["SchedulingBasic/1000Nodes_2000Pods"], label=None, nodes=None)
    assert named.params["nodes"] == 1000
    assert {workload.params["nodes"] for _, workload in choose(SCENARIOS, [], label=None, nodes=500)} == {500}
    with pytest.raises(ScenarioError, match="no such scenario; one of"):
        list(choose(SCENARIOS, ["Nonsense"], label=None, nodes=None))


def test_a_plugin_that_is_not_implemented_is_refused_by_name():
    scenario = SCENARIOS["SchedulingBasic"].model_copy(
        update={"plugins": {"score": {"enabled": [{"name": "CrystalBall"}], "disabled": [{"name": "*"}]}}}
    )
    with pytest.raises(ScenarioError, match="plugin CrystalBall is not implemented"):
        scenario.require_implemented()


def test_an_unknown_template_and_a_missing_parameter_are_refused():
    raw = SCENARIOS["SchedulingBasic"].model_dump(by_alias=True)
    raw["workloadTemplate"][1]["template"] = "nothing"
    with pytest.raises(ValueError, match="no template named 'nothing'"):
        Scenario.model_validate(raw)
    scenario = SCENARIOS["SchedulingBasic"]
    workload = scenario.workloads[0].model_copy(update={"params": {"nodes": 1}})
    with pytest.raises(ScenarioError, match=r"no parameter \$init"):
        resolved(scenario, workload)


def test_templates_are_filled_in():
    operation = CreatePods(opcode="createPods", count=9, template="t", groupSize=2)
    template = with_params({"t": {"a": "$gang", "b": "x-$index", "c": "$zone", "d": "$group"}}, {"gang": 7})["t"]
    assert json.loads(Render(template, operation)(5)) == {"a": 7, "b": "x-00005", "c": "zone-2", "d": "2"}


def test_only_pods_to_be_placed_carry_the_label_that_is_watched():
    assert ROLE in pod_template({}, measured=True)["metadata"]["labels"]
    assert ROLE not in pod_template({}, measured=False)["metadata"]["labels"]


def test_the_drain_rate_leaves_out_the_first_and_last_twentieth():
    steady = [100.0 + index / 10 for index in range(100)]
    assert drain_rate(steady) == pytest.approx(10.0)
    late_ends = [0.0, *steady[1:-1], 1000.0]
    assert drain_rate(late_ends) == pytest.approx(10.0)
    assert drain_rate([]) == 0.0


def test_a_percentile_is_a_value_that_was_measured():
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 0.99) == 99.0
    assert percentile([3.0], 0.5) == 3.0


def test_ratios_are_taken_within_a_round():
    computed = ratios(rounds((10, 1), (40, 10), (30, 10)))
    assert computed["drain_rate"] == {"median": 4.0, "min": 3.0, "max": 10.0}
    assert computed["latency_p99"]["median"] == 0.5
    assert "rss" not in computed
    assert share_of_null_binder(rounds((10, 1)))["drain_rate"]["median"] == 0.5
    assert "latency_p99" not in figures(rounds((10, 1)))[NULL]


def test_thresholds_judge_the_median():
    computed = ratios(rounds((20, 10)))
    assert shortfalls(computed, {"drain_rate": RatioBound(least=2.0), "latency_p99": RatioBound(most=0.5)}) == []
    [slow] = shortfalls(computed, {"drain_rate": RatioBound(least=2.5)})
    assert slow == "drain_rate: 2 times the peer's, at least 2.5 wanted"
    [late] = shortfalls(computed, {"latency_p99": RatioBound(most=0.4)})
    assert late == "latency_p99: 0.5 times the peer's, at most 0.4 wanted"
    assert shortfalls(computed, {"rss": RatioBound(most=1.0)}) == ["rss: no ratio was measured"]


def test_limits_judge_the_worst_round():
    late = [run(20, event_age_max=age, livez_p99=1.0) for age in (2.0, 12.0)]
    computed = figures(
        [race_round.model_copy(update={"runs": {OURS: late[n]}}) for n, race_round in enumerate(rounds((1, 1), (1, 1)))]
    )
    assert excesses(computed, {"event_age_max": 20, "livez_p99": 200}) == []
    assert excesses(computed, {"event_age_max": 10}) == ["event_age_max: 12 s, at most 10 wanted"]


def test_the_result_has_the_shape_that_readers_rely_on(tmp_path: Path):
    scenario = SCENARIOS["SchedulingBasic"]
    workload = scenario.workloads[0]
    result = report.document(scenario, workload, rounds((20, 10), (30, 10)), {"cores": 2})
    assert {key: result[key] for key in ("scenario", "nodes", "pods", "rounds")} == {
        "scenario": "SchedulingBasic",
        "nodes": 100,
        "pods": 500,
        "rounds": 2,
    }
    assert result["ratios"]["drain_rate"] == {"median": 2.5, "min": 2.0, "max": 3.0}
    assert result["figures"][PEER]["drain_rate"]["median"] == 10
    svg = report.plot(scenario, workload, rounds((20, 10)))
    assert len(ElementTree.fromstring(svg).findall("{http://www.w3.org/2000/svg}polyline")) == 3
    report.write(tmp_path, "x", result, svg)
    assert json.loads((tmp_path / "x.json").read_text())["machine"]["cores"] == 2
    assert "drain_rate" in report.table(result)


def test_a_wrong_name_ends_with_exit_code_4_and_one_line(capsys):
    assert main(["--scenario", "Nonsense"]) == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("benchmarks race: --scenario Nonsense: no such scenario")
    assert captured.err.count("\n") == 1


def test_another_checkout_runs_on_its_own_environment_if_it_has_one(tmp_path: Path) -> None:
    assert interpreter(tmp_path) == sys.executable
    own = tmp_path / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.touch()
    assert interpreter(tmp_path) == str(own)


def test_checkouts_whose_directories_have_one_name_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--before", "/a/old", "--before", "/b/old"])
    assert "--before: the directories need names that differ" in capsys.readouterr().err


def test_each_checkout_is_set_beside_ours_round_by_round() -> None:
    def figures_of(cpu: float) -> ContestantRun:
        return ContestantRun(figures={"cpu_per_pod": cpu}, curve=[])

    runs = [{"old": figures_of(2.0), OURS: figures_of(1.0)}, {"old": figures_of(1.0), OURS: figures_of(0.75)}]
    header, row = report.compared(runs, "old").splitlines()
    assert header.split() == ["old", "now", "now", "/", "old"]
    assert " ".join(row.split()) == "cpu_per_pod 1.5 (1 to 2) 0.875 (0.75 to 1) 0.625 (0.5 to 0.75) ms"
