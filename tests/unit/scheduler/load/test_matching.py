"""Instances are matched to nodes: by name, by address, port or not."""

from __future__ import annotations

import pytest

from scheduler.framework import LoadReading, NodeLoad
from scheduler.load import match_nodes, nodes_by_address

NODES = {"n1": "n1", "10.0.0.2": "n2", "fd00::3": "n3"}


@pytest.mark.parametrize(
    ("instance", "node"),
    [
        ("n1", "n1"),
        ("10.0.0.2", "n2"),
        ("10.0.0.2:9100", "n2"),
        ("[fd00::3]:9100", "n3"),
        ("fd00::3", "n3"),
        ("stranger:9100", None),
    ],
)
def test_an_instance_is_matched_by_name_then_by_address_without_port(instance: str, node: str | None) -> None:
    load = NodeLoad(cpu_average=10)
    matched, unmatched = match_nodes(LoadReading({instance: load}, window_end=1), NODES.get)
    assert matched.loads == ({node: load} if node else {})
    assert unmatched == ([] if node else [instance])


@pytest.mark.parametrize("order", [("n2", "10.0.0.2:9100"), ("10.0.0.2:9100", "n2")])
def test_the_series_under_a_nodes_name_wins_over_one_under_its_address(order: tuple[str, ...]) -> None:
    nodes = {**NODES, "n2": "n2"}
    loads = {"n2": NodeLoad(cpu_average=10), "10.0.0.2:9100": NodeLoad(cpu_average=90)}
    reading = LoadReading({name: loads[name] for name in order}, window_end=1)
    matched, unmatched = match_nodes(reading, nodes.get)
    assert (matched.loads, unmatched) == ({"n2": loads["n2"]}, [])


@pytest.mark.parametrize(
    ("nodes", "node"),
    [
        ([("n1", ["10.0.0.1"]), ("n2", ["10.0.0.1"])], None),
        ([("n1", ["10.0.0.1", "10.0.0.1"]), ("n2", ["10.0.0.2"])], "n1"),
        ([("n1", ["10.0.0.1"]), ("10.0.0.1", [])], "10.0.0.1"),
    ],
    ids=["an address of two nodes is neither's", "an address listed twice", "a name wins over an address"],
)
def test_an_address_is_of_one_node(nodes: list[tuple[str, list[str]]], node: str | None) -> None:
    assert nodes_by_address(nodes).get("10.0.0.1") == node
