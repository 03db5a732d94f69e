"""Each side of `plan` is `simulate` with the same configuration and seed; a configuration never differs from itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.drawnclusters import node_object, nodes, pod_object, pods
from tests.support.selection import tries
from tests.support.simulating import CONFIGURATION, run
from tests.unit.cli.plan.comparing import Comparer, scoring_by

CONFIGURATIONS = {
    "default": CONFIGURATION,
    "spreading": scoring_by("LeastAllocated"),
    "packing": scoring_by("MostAllocated"),
}
configurations = st.sampled_from(sorted(CONFIGURATIONS))


@pytest.fixture(scope="module")
def comparer(tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    return Comparer(tmp_path_factory.mktemp("plan"))


def cluster(drawn_nodes: list[Any], drawn_pods: list[Any]) -> list[dict[str, Any]]:
    objects = [node_object(index, drawn) for index, drawn in enumerate(drawn_nodes)]
    return objects + [pod_object(index, drawn, len(drawn_nodes)) for index, drawn in enumerate(drawn_pods)]


def simulated(config: Path, snapshot: Path, seed: int) -> dict[str, tuple[str | None, str | None]]:
    done = run("simulate", "--config", config, "--snapshot", snapshot, "--seed", str(seed), "-o", "json")
    return {pod: (decision["node"], decision["message"]) for pod, decision in done.decisions.items()}


@settings(max_examples=tries(30))
@given(nodes, pods, configurations, st.integers(0, 3), st.sampled_from(["pending", "all"]))
def test_a_configuration_never_differs_from_itself(
    comparer: Comparer, drawn_nodes: list[Any], drawn_pods: list[Any], name: str, seed: int, over: str
) -> None:
    text = CONFIGURATIONS[name]
    arguments = ("--seed", str(seed), "--over", over)
    code, document = comparer.document(text, text, *cluster(drawn_nodes, drawn_pods), arguments=arguments)
    assert code == 0
    assert document["differences"] == document["changes"] == []
    assert document["old"] == {**document["new"], "source": document["old"]["source"]}
    assert all(entry["old"] == entry["new"] for entry in document["nodes"])


@settings(max_examples=tries(40))
@given(nodes, pods, configurations, configurations, st.integers(0, 3))
def test_each_side_places_pods_as_simulate_does(
    comparer: Comparer, drawn_nodes: list[Any], drawn_pods: list[Any], old: str, new: str, seed: int
) -> None:
    objects = cluster(drawn_nodes, drawn_pods)
    _, document = comparer.document(CONFIGURATIONS[old], CONFIGURATIONS[new], *objects, arguments=("--seed", str(seed)))
    snapshot = comparer.directory / "snapshot.json"
    before, after = (simulated(comparer.directory / name, snapshot, seed) for name in ("old.yaml", "new.yaml"))
    differing = {entry["pod"]: entry for entry in document["differences"]}
    assert document["counts"]["pods"] == len(before) == len(after)
    for pod, (node, message) in before.items():
        if pod in differing:
            shown = differing[pod]
            assert (shown["old"]["node"], shown["old"]["message"]) == (node, message)
            assert (shown["new"]["node"], shown["new"]["message"]) == after[pod]
        else:
            assert node == after[pod][0]


@settings(max_examples=tries(20))
@given(nodes, pods, configurations, configurations)
def test_over_all_is_what_simulate_decides_about_the_same_pods_without_nodes(
    comparer: Comparer, drawn_nodes: list[Any], drawn_pods: list[Any], old: str, new: str
) -> None:
    # simulate takes pods by priority first.
    objects = cluster(drawn_nodes, [{**drawn, "priority": 0} for drawn in drawn_pods])
    _, document = comparer.document(CONFIGURATIONS[old], CONFIGURATIONS[new], *objects, arguments=("--over", "all"))
    for item in objects:
        if item["kind"] == "Pod":
            item["spec"].pop("nodeName", None)
    cleared = comparer.write("cleared.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    before, after = (simulated(comparer.directory / name, cleared, 0) for name in ("old.yaml", "new.yaml"))
    expected = {pod: (before[pod][0], after[pod][0]) for pod in before if before[pod][0] != after[pod][0]}
    shown = {entry["pod"]: (entry["old"]["node"], entry["new"]["node"]) for entry in document["differences"]}
    assert shown == expected
