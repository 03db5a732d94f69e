"""Reports of amounts that were counted wrongly, or not named, each by the number of its inputs in tests/data/cases; and
neighbours of the same kind."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.simulating import Result, run

CASES = Path(__file__).parents[2] / "data" / "cases"
Object = dict[str, Any]


def objects(case: str, name: str = "cluster.yaml") -> list[Object]:
    return list(yaml.safe_load_all((CASES / case / name).read_text()))


def named(items: list[Object], name: str) -> Object:
    return next(item for item in items if item["metadata"]["name"] == name)


def write(directory: Path, items: list[Object]) -> Path:
    path = directory / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(items))
    return path


def asking(name: str, cpu: str | None, **more: Any) -> Object:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {"name": name, "image": "i", "resources": resources, **more}


def sidecar(name: str, cpu: str | None) -> Object:
    return asking(name, cpu, restartPolicy="Always")


# 42f: moves --------------------------------------------------------------------------------------------------------


def moves(directory: Path, items: list[Object]) -> Result:
    case = CASES / "42f"
    snapshot = write(directory, items)
    files = ("--config", case / "config.yaml", "--snapshot", snapshot, "--load", case / "load.json")
    return run("rebalance", "plan", *files, "--now", "2026-01-01T00:00:00Z", "-o", "json")


SIX_CORES: dict[str, Object] = {
    "42f": {"containers": [asking("main", "3")], "initContainers": [sidecar("s", "3")]},
    "as a whole": {"containers": [asking("main", None)], "resources": {"requests": {"cpu": "6"}}},
    "sidecars": {"containers": [asking("main", "1")], "initContainers": [sidecar(f"s{n}", "2500m") for n in (1, 2)]},
    "beside a sidecar while starting": {
        "containers": [asking("main", "1")],
        "initContainers": [sidecar("s", "2"), asking("i", "4")],
    },
    "overhead": {"containers": [asking("main", "2")], "overhead": {"cpu": "4"}},
}


@pytest.mark.parametrize("spec", SIX_CORES.values(), ids=SIX_CORES.keys())
def test_42f_a_pod_of_six_cores_is_not_moved_where_it_would_overload(spec: Object, tmp_path: Path) -> None:
    items = objects("42f")
    for name in ("web-0", "web-1"):
        kept = {key: named(items, name)["spec"][key] for key in ("nodeName", "schedulerName")}
        named(items, name)["spec"] = {**kept, **copy.deepcopy(spec)}
    done = moves(tmp_path, items)
    assert json.loads(done.out)["moves"] == [], done.out


def test_42f_one_of_three_cores_is_moved(tmp_path: Path) -> None:
    items = objects("42f")
    for name in ("web-0", "web-1"):
        del named(items, name)["spec"]["initContainers"]
    (move,) = json.loads(moves(tmp_path, items).out)["moves"]
    assert (move["pod"], move["to"]["node"], move["to"]["load"]["after"]["cpu"]) == ("default/web-0", "n3", 60.0)


# 43: estimates -----------------------------------------------------------------------------------------------------


def estimated(snapshot: Path) -> float:
    case = CASES / "43"
    files = ("--old", case / "a.yaml", "--new", case / "b.yaml", "--snapshot", snapshot, "--load", case / "load.json")
    done = run("plan", *files, "--now", "2026-01-01T00:00:00Z", "-o", "json")
    estimate: float = json.loads(done.out)["new"]["estimatedLoad"]["cpu"]["max"]
    return estimate


@pytest.mark.parametrize("name", ["plain", "sidecar", "podlevel"])
def test_43_the_same_six_cores_are_estimated_the_same(name: str) -> None:
    assert estimated(CASES / "43" / f"{name}.yaml") == pytest.approx(70.0)


@pytest.mark.parametrize("spec", SIX_CORES.values(), ids=SIX_CORES.keys())
def test_43_however_a_pod_asks_for_them(spec: Object, tmp_path: Path) -> None:
    items = objects("43", "plain.yaml")
    named(items, "p")["spec"] = {"schedulerName": "second", **copy.deepcopy(spec)}
    assert estimated(write(tmp_path, items)) == pytest.approx(70.0)


# 21: predictions ---------------------------------------------------------------------------------------------------


def raw_scores(directory: Path, spec: Object, *, compatibility: str = "safe") -> dict[str, int]:
    """TargetLoadPacking's scores for the only pod of the cluster."""
    case = CASES / "21"
    nodes = [item for item in objects("21") if item["kind"] == "Node"]
    metadata = {"name": "p", "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"schedulerName": "second", **spec}}
    configuration = yaml.safe_load((case / "config.yaml").read_text())
    options = {"name": "SecondarySchedulerOptions", "args": {"compatibility": compatibility}}
    configuration["profiles"][0]["pluginConfig"].append(options)
    (directory / "config.yaml").write_text(yaml.safe_dump(configuration))
    snapshot = write(directory, [*nodes, copy.deepcopy(pod)])
    files = ("--config", directory / "config.yaml", "--snapshot", snapshot, "--load", case / "load.json")
    (decision,) = run("simulate", *files, "-o", "json").decisions.values()
    return {name: node["scores"]["TargetLoadPacking"]["raw"] for name, node in decision["nodes"].items()}


def limited(name: str, cpu: str, **more: Any) -> Object:
    return {"name": name, "image": "i", "resources": {"limits": {"cpu": cpu}}, **more}


PLAIN = {"containers": [limited("main", "4100m")]}
PREDICTED: dict[str, Object] = {
    "21": {
        "containers": [limited("main", "100m")],
        "initContainers": [limited("side", "4", restartPolicy="Always")],
    },
    "a request of a sidecar, times 1.5": {
        "containers": [limited("main", "1100m")],
        "initContainers": [sidecar("side", "2")],
    },
    "a sidecar that says nothing": {
        "containers": [limited("main", "3100m")],
        "initContainers": [sidecar("side", None)],
    },
    "a limit of the whole": {
        "containers": [limited("main", "9")],
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4100m"}},
    },
    "a request of the whole, times 1.5": {
        "containers": [asking("main", "1")],
        "resources": {"requests": {"cpu": "2"}},
        "overhead": {"cpu": "1100m"},
    },
    "an ordinary init container is over": {
        "containers": [limited("main", "4100m")],
        "initContainers": [limited("before", "9")],
    },
}


@pytest.mark.parametrize("spec", PREDICTED.values(), ids=PREDICTED.keys())
def test_21_what_a_pod_will_use_is_predicted_once(spec: Object, tmp_path: Path) -> None:
    assert raw_scores(tmp_path, spec) == raw_scores(tmp_path, PLAIN) == {"n1": 19, "n2": 33}


def test_21_upstream_predicts_by_main_containers_only(tmp_path: Path) -> None:
    main = {"containers": PREDICTED["21"]["containers"]}
    assert raw_scores(tmp_path, PREDICTED["21"], compatibility="upstream") == raw_scores(
        tmp_path, main, compatibility="upstream"
    )


# 19, 18b: NUMA -----------------------------------------------------------------------------------------------------


def simulated(directory: Path, case: str, items: list[Object], *, compatibility: str = "safe") -> Result:
    configuration = yaml.safe_load((CASES / case / "config.yaml").read_text())
    options = {"name": "SecondarySchedulerOptions", "args": {"compatibility": compatibility}}
    configuration["profiles"][0].setdefault("pluginConfig", []).append(options)
    (directory / "config.yaml").write_text(yaml.safe_dump(configuration))
    files = ("--config", directory / "config.yaml", "--snapshot", write(directory, items))
    return run("simulate", *files, "-o", "json")


def scoped(items: list[Object], scope: str) -> list[Object]:
    (topology,) = [item for item in items if item["kind"] == "NodeResourceTopology"]
    named_scope = next(each for each in topology["attributes"] if each["name"] == "topologyManagerScope")
    named_scope["value"] = scope
    return items


def only(items: list[Object], name: str) -> list[Object]:
    return [item for item in items if item["kind"] != "Pod" or item["metadata"]["name"] == name]


@pytest.mark.parametrize(
    ("name", "compatibility", "node"),
    [("side", "safe", None), ("init", "safe", "n1"), ("side", "upstream", "n1"), ("init", "upstream", "n1")],
)
def test_19_a_sidecar_adds_to_a_pod_that_is_aligned_as_a_whole(
    name: str, compatibility: str, node: str | None, tmp_path: Path
) -> None:
    (decision,) = simulated(tmp_path, "19", only(objects("19"), name), compatibility=compatibility).decisions.values()
    assert decision["node"] == node
    if node is None:
        assert "cannot align pod (cpu: 10 requested, 8 left in one zone)" in decision["message"]


def test_19_a_sidecar_keeps_its_cpus_from_containers_that_are_aligned_each_by_itself(tmp_path: Path) -> None:
    """Sidecar and init container of 5 cpus take a zone each, if at all: the third zone's worth is not there."""
    items = scoped(only(objects("19"), "side"), "container")
    spec = named(items, "side")["spec"]
    spec["containers"].append({**copy.deepcopy(spec["containers"][0]), "name": "c1"})
    (decision,) = simulated(tmp_path, "19", items).decisions.values()
    assert "cannot align container (c1: cpu: 5 requested, 3 left in one zone)" in decision["message"]
    (decision,) = simulated(tmp_path, "19", items, compatibility="upstream").decisions.values()
    assert decision["node"] == "n1", "upstream forgets the sidecar"


def test_19_an_init_container_gives_its_cpus_back(tmp_path: Path) -> None:
    items = scoped(only(objects("19"), "init"), "container")
    (decision,) = simulated(tmp_path, "19", items).decisions.values()
    assert decision["node"] == "n1"


def test_19_an_init_container_runs_beside_the_sidecars_before_it(tmp_path: Path) -> None:
    items = only(objects("19"), "init")
    first = named(items, "init")["spec"]["initContainers"][0]
    named(items, "init")["spec"]["initContainers"] = [{**first, "restartPolicy": "Always"}, {**first, "name": "i1"}]
    (decision,) = simulated(tmp_path, "19", items).decisions.values()
    assert decision["node"] is None


def test_19_kubelets_align_no_pod_with_resources_as_a_whole(tmp_path: Path) -> None:
    items = only(objects("19"), "side")
    whole = {"cpu": "10", "memory": "2Gi"}
    named(items, "side")["spec"]["resources"] = {"requests": whole, "limits": whole}
    (decision,) = simulated(tmp_path, "19", items).decisions.values()
    assert decision["node"] == "n1"


def test_18b_a_device_that_no_zone_reports_is_not_aligned(tmp_path: Path) -> None:
    (decision,) = simulated(tmp_path, "18b", objects("18b")).decisions.values()
    assert decision["node"] == "n1"


def test_18b_what_cannot_be_aligned_is_named(tmp_path: Path) -> None:
    items = objects("18b")
    requests = named(items, "dev")["spec"]["containers"][0]["resources"]["requests"]
    for amount, words in (
        ({"cpu": "12"}, "cannot align container (c0: cpu: 12 requested, 8 left in one zone)"),
        ({"memory": "9Gi"}, "cannot align container (c0: memory: 9Gi requested, 8Gi left in one zone)"),
    ):
        requests.update({"cpu": "2", "memory": "1Gi", **amount})
        (decision,) = simulated(tmp_path, "18b", items).decisions.values()
        assert words in decision["message"]
    del requests["example.com/nic"]
    zones = next(item for item in items if item["kind"] == "NodeResourceTopology")["zones"]
    zones[0]["resources"] = [{**each, "available": "8"} for each in zones[0]["resources"] if each["name"] == "cpu"]
    zones[1]["resources"] = [each for each in zones[1]["resources"] if each["name"] == "memory"]
    requests.update({"cpu": "2", "memory": "1Gi"})
    (decision,) = simulated(tmp_path, "18b", items).decisions.values()
    assert "(c0: no zone has all of 2 cpu, 1Gi memory)" in decision["message"]


def explained(directory: Path, pod: str, namespace: str, *arguments: str) -> str:
    files = ("--config", directory / "config.yaml", "--snapshot", directory / "cluster.yaml")
    return run("explain", "pod", pod, "-n", namespace, *files, *arguments).out


def test_18b_upstreams_words_stay_and_explain_names_the_amounts(tmp_path: Path) -> None:
    items = objects("18b")
    named(items, "dev")["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "12"
    (decision,) = simulated(tmp_path, "18b", items, compatibility="upstream").decisions.values()
    assert "1 cannot align container." in decision["message"]
    amounts = "cannot align container (c0: cpu: 12 requested, 8 left in one zone)"
    assert amounts in explained(tmp_path, "dev", "default")
    assert amounts in explained(tmp_path, "dev", "default", "--why-not", "n1")


# 13b: quotas -------------------------------------------------------------------------------------------------------

_REJECTED = "Pod team-a/a0 is rejected in PreFilter because "


def test_13b_the_resource_of_a_quota_is_named(tmp_path: Path) -> None:
    done = simulated(tmp_path, "13b", objects("13b"))
    assert done.nodes == {"team-a/a0": None, "team-a/a1": "g1"}
    words = "ElasticQuota team-a is more than Max (cpu: 100m requested, 0 used, max 0, as it is not listed)."
    assert f"{_REJECTED}{words}" in done.decisions["team-a/a0"]["message"]


QUOTAS = [
    (
        {"min": {"cpu": "9", "example.com/gpu": "9"}, "max": {"cpu": "1", "example.com/gpu": "0"}},
        "ElasticQuota team-a is more than Max (example.com/gpu: 1 requested, 0 used, max 0)",
    ),
    (
        {"min": {"cpu": "50m", "example.com/gpu": "9"}, "max": {"cpu": "1", "example.com/gpu": "9"}},
        "total ElasticQuota used is more than min (cpu: 100m requested, 0 used, min of all quotas 50m)",
    ),
    (
        {"min": {"cpu": "50m"}, "max": {"cpu": "50m"}},
        "ElasticQuota team-a is more than Max (cpu: 100m requested, 0 used, max 50m)",
    ),
]


@pytest.mark.parametrize(("spec", "words"), QUOTAS)
def test_13b_used_asked_and_most_are_named(spec: Object, words: str, tmp_path: Path) -> None:
    items = only(objects("13b"), "a0")
    named(items, "q")["spec"] = spec
    (decision,) = simulated(tmp_path, "13b", items).decisions.values()
    assert f"{_REJECTED}{words}." in decision["message"]


@pytest.mark.parametrize(("spec", "words"), QUOTAS)
def test_13b_upstreams_words_stay_and_explain_names_the_amounts(spec: Object, words: str, tmp_path: Path) -> None:
    items = only(objects("13b"), "a0")
    named(items, "q")["spec"] = spec
    (decision,) = simulated(tmp_path, "13b", items, compatibility="upstream").decisions.values()
    assert f"{_REJECTED}{words.partition(' (')[0]}." in decision["message"]
    assert words in explained(tmp_path, "a0", "team-a")
    assert words in explained(tmp_path, "a0", "team-a", "--why-not", "g1")


def test_13b_what_is_used_and_nominated_counts(tmp_path: Path) -> None:
    items = objects("13b")
    named(items, "q")["spec"]["max"] = {"cpu": "150m", "example.com/gpu": "5"}
    named(items, "q")["spec"]["min"] = {"cpu": "9", "example.com/gpu": "5"}
    running = copy.deepcopy(named(items, "a0"))
    running["metadata"]["name"], running["spec"]["nodeName"] = "there", "g1"
    (decision,) = simulated(tmp_path, "13b", [*only(items, "a0"), running]).decisions.values()
    assert "(cpu: 100m requested, 100m used, max 150m)" in decision["message"]


# 41: load that is not usable ---------------------------------------------------------------------------------------

_LINE = "TargetLoadPacking: {} of 2 without fresh load{}, such as {}"
_CPU = " of cpu (type CPU, operator AVG or Latest)"


def lines(load: str | Path, configuration: Path = CASES / "41" / "config.yaml") -> list[str]:
    """What `simulate` says on stderr, but for the version it decides as."""
    files = ("--config", configuration, "--snapshot", CASES / "41" / "cluster.yaml", "--load", load)
    return [line for line in run("simulate", *files).err.splitlines() if " decides as " not in line]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("good", None),
        ("operator-word", _LINE.format("2 nodes", _CPU, "n1")),
        ("type-lowercase", _LINE.format("2 nodes", _CPU, "n1")),
        ("memory-only", _LINE.format("2 nodes", _CPU, "n1")),
        ("half", _LINE.format("1 node", _CPU, "n2")),
        ("by-address", _LINE.format("2 nodes", "", "n1")),
        ("wrong-key", _LINE.format("2 nodes", "", "n1")),
        ("empty", _LINE.format("2 nodes", "", "n1")),
    ],
)
def test_41_a_load_that_has_nothing_that_the_plugin_reads_is_told(name: str, line: str | None) -> None:
    printed = lines(CASES / "41" / f"{name}.json")
    assert [each for each in printed if each != "load: averaged over 15m"] == ([] if line is None else [line])


def test_41_loads_that_no_node_can_have_are_told() -> None:
    assert any("2 nodes of 2 without fresh load" in line for line in lines(CASES / "41" / "absurd.json"))


METRIC = {"type": "CPU", "operator": "AVG", "value": 30}
MEMORY = {"type": "Memory", "operator": "AVG", "value": 30}


@pytest.mark.parametrize(
    ("plugin", "metrics", "lacking"),
    [
        ("LoadVariationRiskBalancing", [METRIC, MEMORY], []),
        ("LoadVariationRiskBalancing", [METRIC], [" of memory"]),
        ("LoadVariationRiskBalancing", [{**METRIC, "operator": "STD"}], [" of cpu", " of memory"]),
        ("LowRiskOverCommitment", [MEMORY], [" of cpu"]),
        ("HighLoadFilter", [METRIC], [" of memory"]),
        ("Peaks", [METRIC], []),
        ("Peaks", [{**METRIC, "operator": ""}], [_CPU]),
    ],
)
def test_41_for_each_figure_that_a_plugin_reads(
    plugin: str, metrics: list[Object], lacking: list[str], tmp_path: Path
) -> None:
    configuration = yaml.safe_load((CASES / "41" / "config.yaml").read_text())
    profile = configuration["profiles"][0]
    point = "filter" if plugin == "HighLoadFilter" else "score"
    profile["plugins"] = {point: {"enabled": [{"name": plugin}]}}
    key = "WatcherAddress" if plugin == "Peaks" else "watcherAddress"
    args = {key: "http://lw.example:2020"}
    if plugin == "Peaks":
        args["NodePowerModel"] = {name: {"k0": 1, "k1": 1, "k2": 0.1} for name in ("n1", "n2")}
    profile["pluginConfig"] = [{"name": plugin, "args": args}]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(configuration))
    nodes = {name: {"metrics": metrics} for name in ("n1", "n2")}
    (tmp_path / "load.json").write_text(json.dumps({"data": {"NodeMetricsMap": nodes}}))
    expected = [f"{plugin}: 2 nodes of 2 without fresh load{figure}, such as n1" for figure in lacking]
    assert lines(tmp_path / "load.json", tmp_path / "config.yaml") == expected


def test_41_a_node_without_capacity_is_as_large_as_what_can_be_allocated(tmp_path: Path) -> None:
    items = objects("41")
    shares = []
    for fields in (("capacity", "allocatable"), ("allocatable",)):
        for item in items:
            if item["kind"] == "Node":
                amounts = next(iter(item["status"].values()))
                item["status"] = {field: dict(amounts) for field in fields}
        files = ("--config", CASES / "41" / "config.yaml", "--snapshot", write(tmp_path, items))
        done = run("simulate", *files, "--load", CASES / "41" / "good.json", "-o", "json")
        nodes = done.decisions["default/p"]["nodes"]
        shares.append({name: node["scores"]["TargetLoadPacking"]["raw"] for name, node in nodes.items()})
    assert shares[0] == shares[1] == {"n1": 37, "n2": 78}
