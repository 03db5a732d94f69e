"""The nodes' load as `/debug/nodes` shows it: as measured, and with the pods that came since."""

from __future__ import annotations

import math

from scheduler.answers import LoadEstimate, NodeLoadRow
from scheduler.engine.loadfeeds import SourceNodeLoads
from scheduler.framework import LoadReading, NodeLoad
from scheduler.state import ClusterState
from tests.unit.scheduler.engine.pods import node_info, pod_info

SOURCE = "Prometheus:http://p"
NOW = 1000.0
MAX_AGE = 300.0


def measured(state: ClusterState, **loads: NodeLoad) -> None:
    state.set_load(LoadReading(loads, NOW, source=SOURCE))


def cluster(*names: str) -> ClusterState:
    """Nodes with 4 CPUs and 8 GiB."""
    state = ClusterState()
    for name in names:
        state.upsert_node(node_info(name))
    return state


def rows(state: ClusterState, now: float = NOW) -> list[NodeLoadRow]:
    return list(SourceNodeLoads(state, SOURCE, MAX_AGE).rows(now))


def test_each_node_has_its_load_and_the_age_of_the_sample() -> None:
    state = cluster("a", "b", "c")
    measured(
        state,
        a=NodeLoad(cpu_average=35.123, memory_average=40.0, measured_at=NOW - 10),
        b=NodeLoad(cpu_average=80.0, measured_at=NOW - 400),
        c=NodeLoad(cpu_stddev=1.0, measured_at=NOW),
    )
    assert rows(state) == [
        NodeLoadRow("a", 35.12, 40.0, LoadEstimate(35.12, 40.0), 10.0, True),
        NodeLoadRow("b", 80.0, None, LoadEstimate(80.0, None), 400.0, False),
    ]


def test_a_pod_that_came_too_late_to_be_measured_is_added_to_the_estimate_until_it_is_measured() -> None:
    state = cluster("a", "b")
    loads = SourceNodeLoads(state, SOURCE, MAX_AGE)
    measured(state, a=NodeLoad(cpu_average=35.0, memory_average=math.nan), b=NodeLoad(cpu_average=10.0))
    state.assume(pod_info("p", cpu="2"), "a", NOW - 5)
    first, second = loads.rows(NOW)
    assert (first.cpu, first.estimated) == (35.0, LoadEstimate(85.0, None))
    assert second.estimated == LoadEstimate(10.0, None)
    state.set_load(LoadReading({"a": NodeLoad(cpu_average=84.0)}, NOW + 120, source=SOURCE))
    (later,) = loads.rows(NOW + 120)
    assert later.estimated == LoadEstimate(84.0, None)


def test_the_rows_are_those_of_the_question_whatever_happens_before_they_are_gone_through() -> None:
    state = cluster("a")
    measured(state, a=NodeLoad(cpu_average=35.0))
    answer = SourceNodeLoads(state, SOURCE, MAX_AGE).rows(NOW)
    measured(state, a=NodeLoad(cpu_average=99.0))
    state.remove_node("a")
    state.upsert_node(node_info("z"))
    assert [(row.name, row.cpu) for row in answer] == [("a", 35.0)]


def test_a_source_that_was_never_read_has_no_nodes() -> None:
    assert rows(cluster("a")) == []
