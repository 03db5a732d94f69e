"""Traces of attempts, on a live engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.engine.attemptlog import AttemptLog
from scheduler.engine.timing import AttemptTraces
from scheduler.kube.client.errors import api_error
from scheduler.observe import Span, Trace
from tests.unit.scheduler.engine.fakes import Engine, eventually, started
from tests.unit.scheduler.engine.gangs import GangEngine


def follow(engine: Engine, sample: Callable[[], int | None] | None = None) -> list[Trace]:
    """The traces of an engine, as they end."""
    traces: list[Trace] = []
    ids = itertools.count(1)
    log = AttemptLog(0, None, AttemptTraces(sample or (lambda: next(ids)), traces.append))
    engine.cycle._log = engine.cycle._gangs._log = log
    return traces


def spans_of(trace: Trace) -> dict[str, Span]:
    """By name; within the root in time, and in order."""
    root, *children = trace.spans
    assert all(root.began <= span.began <= span.ended <= root.ended for span in children)
    assert len({span.name for span in trace.spans}) == len(trace.spans)
    return {span.name: span for span in trace.spans}


async def test_a_bound_pod_has_a_decision_and_a_binding_that_says_when_pre_bind_ended(engine: Engine) -> None:
    traces = follow(engine)
    engine.add_node("small", cpu="1")
    engine.add_node("large", cpu="8")
    engine.add_pod("p")
    await eventually(lambda: bool(traces), "a trace")
    spans = spans_of(traces[0])
    assert list(spans) == ["SchedulingAttempt", "SchedulePod", "BindingCycle"]
    node = engine.api.bindings[0][2]
    assert spans["SchedulingAttempt"].attributes == {
        "k8s.namespace.name": "ns",
        "k8s.pod.name": "p",
        "k8s.pod.uid": "p-uid",
        "k8s.node.name": node,
        "secondary_scheduler.profile": "secondary-scheduler",
        "secondary_scheduler.attempt": 1,
        "secondary_scheduler.result": "scheduled",
    }
    decision = spans["SchedulePod"].attributes
    assert decision["secondary_scheduler.evaluated_nodes"] == decision["secondary_scheduler.feasible_nodes"] == 2
    assert decision["k8s.node.name"] == node
    (event,) = spans["BindingCycle"].events
    assert event.name == "PreBind"
    assert spans["BindingCycle"].began <= event.at <= spans["BindingCycle"].ended
    assert [span.error for span in spans.values()] == [None] * 3


async def test_a_pod_that_fits_nowhere_says_who_rejected_it_and_that_preemption_was_tried(engine: Engine) -> None:
    traces = follow(engine)
    engine.add_node("n1", cpu="1")
    engine.add_pod("big", cpu="3")
    await eventually(lambda: bool(traces), "a trace")
    spans = spans_of(traces[0])
    assert list(spans) == ["SchedulingAttempt", "SchedulePod", "PostFilter"]
    attributes = spans["SchedulingAttempt"].attributes
    assert attributes["secondary_scheduler.result"] == "unschedulable"
    assert attributes["secondary_scheduler.rejected_by"] == ["NodeResourcesFit"]
    assert attributes["secondary_scheduler.queue"] == "unschedulable"
    assert str(attributes["secondary_scheduler.message"]).startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert spans["PostFilter"].attributes == {
        "secondary_scheduler.status": "Unschedulable",
        "secondary_scheduler.victims": 0,
    }
    assert spans["SchedulingAttempt"].error is None


async def test_preemption_names_the_node_and_counts_the_victims(engine: Engine) -> None:
    traces = follow(engine)
    engine.add_node("n1", cpu="1")
    engine.add_pod("low", node="n1", cpu="800m", priority=1)
    engine.add_pod("high", cpu="500m", priority=10)
    await eventually(lambda: bool(traces), "a trace")
    attributes = spans_of(traces[0])["PostFilter"].attributes
    assert (attributes["secondary_scheduler.victims"], attributes["k8s.node.name"]) == (1, "n1")


async def test_a_refused_binding_is_an_error_of_the_attempt_and_of_the_binding(engine: Engine) -> None:
    traces = follow(engine)
    engine.api.failures = [api_error("POST", "/x", 403, b'{"kind": "Status", "message": "a webhook said no"}')]
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(traces), "a trace")
    spans = spans_of(traces[0])
    assert spans["SchedulingAttempt"].attributes["error.type"] == "SchedulerError"
    for name in ("SchedulingAttempt", "BindingCycle"):
        assert "a webhook said no" in (spans[name].error or "")
    await eventually(lambda: len(traces) == 2, "the next attempt", 10)
    assert traces[1].spans[0].attributes["secondary_scheduler.attempt"] == 2
    assert traces[0].trace_id != traces[1].trace_id


async def test_an_attempt_without_nodes_and_one_that_raises_have_a_trace(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = follow(engine)
    engine.add_pod("early")
    await eventually(lambda: len(traces) == 1, "the first trace")
    assert traces[0].spans[0].attributes["secondary_scheduler.message"] == "no nodes available to schedule pods"

    def fail(*_: Any) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(engine.cycle._attempts, "decide", fail)
    engine.add_node("n1")
    await eventually(lambda: len(traces) == 2, "the second trace", 10)
    assert traces[1].spans[0].error == "the attempt raised ValueError: a defect"


async def test_attempts_that_are_not_sampled_leave_nothing(engine: Engine) -> None:
    traces = follow(engine, lambda: None)
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.bindings), "bound")
    assert traces == []


async def test_members_of_a_gang_have_a_trace_each_with_the_wait_for_the_others() -> None:
    async with started(GangEngine()) as engine:
        traces = follow(engine)
        engine.add_node("n1", cpu="8")
        engine.add_group("g", 2)
        engine.add_members("g", 2)
        await eventually(lambda: len(traces) == 2, "a trace per member")
    assert {trace.spans[0].attributes["k8s.pod.name"] for trace in traces} == {"g-0", "g-1"}
    assert {trace.spans[0].attributes["secondary_scheduler.result"] for trace in traces} == {"scheduled"}
    decisions = sorted((spans_of(trace)["SchedulePod"] for trace in traces), key=lambda span: span.began)
    assert decisions[0].ended <= decisions[1].began
    assert [span.attributes["secondary_scheduler.status"] for trace in traces for span in trace.spans
            if span.name == "WaitOnPermit"] == ["Success"]  # fmt: skip


async def test_a_pod_cannot_continue_a_trace_of_others(engine: Engine) -> None:
    traces = follow(engine)
    engine.add_node("n1")
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    engine.add_pod("p", metadata={"annotations": {"traceparent": parent}, "labels": {"traceparent": "x"}})
    await eventually(lambda: bool(traces), "a trace")
    assert traces[0].trace_id == 1
    assert "traceparent" not in str(traces[0])
