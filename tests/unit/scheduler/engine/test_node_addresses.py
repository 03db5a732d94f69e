"""Which node a load source means by an address, while nodes come, go and change their addresses."""

from __future__ import annotations

import pytest
import structlog

from scheduler.engine.inputs import NodeUpdate
from scheduler.framework import LoadReading, NodeLoad
from scheduler.kube.model import DecodeError, EventType, ObjectMeta, ResourceVersion
from scheduler.load import match_nodes
from tests.unit.scheduler.engine.fakes import Engine
from tests.unit.scheduler.engine.pods import node_info


def show(engine: Engine, name: str, *addresses: str) -> None:
    """The watch brings a node, or a change of it."""
    engine.nodes.apply([(EventType.MODIFIED, NodeUpdate(node_info(name), addresses))])


def remove(engine: Engine, name: str) -> None:
    engine.nodes.apply([(EventType.DELETED, NodeUpdate(node_info(name), ()))])


async def test_an_address_that_a_node_gave_up_is_no_longer_its(engine: Engine) -> None:
    show(engine, "a", "10.0.0.1")
    show(engine, "a", "10.0.0.2")
    assert engine.nodes.node_of_address("10.0.0.1") is None
    assert engine.nodes.node_of_address("10.0.0.2") == "a"


async def test_load_under_an_old_address_goes_to_the_node_that_has_it_now(engine: Engine) -> None:
    show(engine, "a", "10.0.0.1")
    show(engine, "a", "10.0.0.2")
    show(engine, "b", "10.0.0.1")
    reading = LoadReading({"10.0.0.1:9100": NodeLoad(cpu_average=90)}, window_end=1)
    matched, unmatched = match_nodes(reading, engine.nodes.node_of_address)
    assert (list(matched.loads), unmatched) == (["b"], [])


@pytest.mark.parametrize("first", ["a", "b"])
async def test_an_address_of_two_nodes_is_neithers_until_one_gives_it_up(engine: Engine, first: str) -> None:
    second = "b" if first == "a" else "a"
    with structlog.testing.capture_logs() as lines:
        for name in (first, second, first, second):
            show(engine, name, "10.0.0.1", f"{name}.example.com")
    assert engine.nodes.node_of_address("10.0.0.1") is None
    assert engine.nodes.node_of_address("a.example.com") == "a"
    (line,) = [line for line in lines if line["log_level"] == "warning"]
    assert (line["address"], line["nodes"]) == ("10.0.0.1", [first, second])
    show(engine, first, f"{first}.example.com")
    assert engine.nodes.node_of_address("10.0.0.1") == second


@pytest.mark.parametrize("name_first", [True, False])
async def test_a_name_wins_over_another_nodes_address_whoever_comes_first(engine: Engine, name_first: bool) -> None:
    updates = [("10.0.0.1", ()), ("a", ("10.0.0.1", "a"))]
    for name, addresses in updates if name_first else updates[::-1]:
        show(engine, name, *addresses)
    assert engine.nodes.node_of_address("10.0.0.1") == "10.0.0.1"
    remove(engine, "10.0.0.1")
    assert engine.nodes.node_of_address("10.0.0.1") == "a"


async def test_a_removed_node_keeps_no_address(engine: Engine) -> None:
    show(engine, "a", "10.0.0.1")
    show(engine, "b", "10.0.0.1")
    remove(engine, "a")
    assert engine.nodes.node_of_address("10.0.0.1") == "b"
    engine.nodes.replace([NodeUpdate(node_info("c"), ("10.0.0.3",))], ResourceVersion("9"))
    assert engine.nodes.node_of_address("10.0.0.1") is None
    assert engine.nodes.node_of_address("b") is None
    engine.nodes.invalid(ObjectMeta(name="c"), DecodeError("no node"))
    assert engine.nodes.node_of_address("10.0.0.3") is None
