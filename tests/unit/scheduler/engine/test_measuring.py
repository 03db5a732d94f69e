"""What attempts leave in metrics and log: durations by extension point and plugin, moves by event, debug lines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.engine import attemptlog
from scheduler.engine.attemptlog import AttemptLog
from scheduler.framework import Code, Reads, Status
from scheduler.kube.model import EventType
from scheduler.observe import Metrics
from scheduler.observe.metrics import LATE_SECONDS, MAX_NAMESPACES
from tests.unit.scheduler.engine.fakes import CONFIGURATION, Engine, behaving_as, eventually
from tests.unit.scheduler.engine.pods import pod_info

PROFILE = "secondary-scheduler"


def values(engine: Engine, name: str) -> dict[tuple[str, ...], float]:
    """The series of a metric by their label values; of a histogram how many observations they have."""
    family = getattr(engine.metrics, name)
    return {
        labels: sum(series.counts) if hasattr(series, "counts") else series.value for labels, series in family.series()
    }


async def scheduled(engine: Engine, *names: str, **fields: Any) -> None:
    """Have pods with these names and fields bound or rejected."""
    for runner in engine.timings.values():
        runner._chance = lambda: 0.0
    running = asyncio.create_task(engine.cycle.run())
    for name in names:
        engine.add_pod(name, cpu="100" if name.startswith("large") else "100m", **fields)
    attempts = engine.metrics.schedule_attempts
    await eventually(lambda: sum(count.value for _, count in attempts.series()) >= len(names), "all were tried")
    await eventually(lambda: not engine.cycle.bindings_under_way, "all bindings have ended")
    running.cancel()


@pytest.fixture
async def engine() -> Engine:
    engine = Engine()
    for name in ("a", "b"):
        engine.add_node(name)
    return engine


async def test_every_extension_point_of_a_bound_pod_is_measured_once(engine: Engine) -> None:
    await scheduled(engine, "small")
    points = values(engine, "point_duration")
    expected = ("PreEnqueue", "PreFilter", "Filter", "Score", "Reserve", "Permit", "PreBind", "Bind", "PostBind")
    assert {point: points.get((point, "Success", PROFILE)) for point in expected} == dict.fromkeys(expected, 1)


async def test_a_bound_pod_counts_under_its_namespace_as_in_time_or_late(engine: Engine) -> None:
    await scheduled(engine, "small", metadata={"namespace": "team-a"})
    assert values(engine, "pods_bound") == {("team-a", "first", "false"): 1}
    engine.metrics.count_bound("team-a", 2, LATE_SECONDS + 0.1)
    assert values(engine, "pods_bound")["team-a", "later", "true"] == 1


def test_pods_of_further_namespaces_are_counted_together() -> None:
    metrics = Metrics()
    for number in range(MAX_NAMESPACES + 5):
        metrics.count_bound(f"team-{number}", 1, 0.1)
    metrics.count_bound("team-0", 1, 0.1)
    counts = {labels: series.value for labels, series in metrics.pods_bound.series()}
    assert len(counts) == MAX_NAMESPACES + 1
    assert (counts["team-0", "first", "false"], counts["", "first", "false"]) == (2, 5)


async def test_a_rejected_pod_is_measured_up_to_post_filter_and_counted_under_its_rejectors(engine: Engine) -> None:
    await scheduled(engine, "large")
    points = values(engine, "point_duration")
    assert points["PreFilter", "Success", PROFILE] == points["Filter", "Success", PROFILE] == 1
    assert points["PostFilter", "Unschedulable", PROFILE] == 1
    assert not any(point in ("Score", "Reserve", "Bind") for point, _, _ in points)
    engine.show_queue()
    shown = {tuple(sample.labels.values()): sample.value for sample in sampled(engine.metrics.unschedulable_pods)}
    assert shown == {("NodeResourcesFit", PROFILE): 1}
    engine.queue.delete("large-uid")
    engine.show_queue()
    assert {sample.value for sample in sampled(engine.metrics.unschedulable_pods)} == {0}


def sampled(gauge: Any) -> list[Any]:
    return [sample for metric in gauge.collect() for sample in metric.samples]


async def test_plugins_are_measured_in_the_sampled_attempts(engine: Engine) -> None:
    await scheduled(engine, "large")
    plugins = {(plugin, point) for plugin, point, _ in values(engine, "plugin_duration")}
    assert {("NodeResourcesFit", "PreFilter"), ("NodeResourcesFit", "Filter")} <= plugins
    assert ("DefaultPreemption", "PostFilter") in plugins
    calls = values(engine, "plugin_evaluations")
    assert calls["NodeResourcesFit", "Filter", PROFILE] >= 1
    assert {point for _, point, _ in calls} <= {"PreFilter", "Filter", "PreScore", "Score"}


async def test_pods_are_counted_by_queue_and_by_what_moved_them_there(engine: Engine) -> None:
    await scheduled(engine, "large", "small")
    assert values(engine, "incoming_pods") == {
        ("active", "UnschedulablePodAdd"): 2,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
    }
    engine.add_node("c", cpu="1000")
    incoming = values(engine, "incoming_pods")
    assert incoming.get(("backoff", "NodeAdd"), 0) + incoming.get(("active", "NodeAdd"), 0) == 1
    assert values(engine, "event_handling")["NodeAdd",] == 3
    assert values(engine, "event_handling")["UnschedulablePodAdd",] == 2


async def test_pods_are_also_counted_as_entities_of_the_type_pod(engine: Engine) -> None:
    await scheduled(engine, "large", "small")
    (family,) = [each for each in engine.metrics.registry.collect() if each.name == "scheduler_queue_incoming_entities"]
    shown = {tuple(sample.labels.values()): sample.value for sample in family.samples}
    assert shown == {(*labels, "pod"): count for labels, count in values(engine, "incoming_pods").items()}


async def test_a_pod_bound_after_the_timeout_of_unschedulable_pods_is_counted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scheduled(engine, "large")
    with monkeypatch.context() as missed:
        missed.setattr(engine.queue, "on_event", lambda *_, **__: 0)
        engine.add_node("c", cpu="1000")
    await scheduled(engine, "small")
    assert values(engine, "scheduled_after_flush") == {(): 0}
    monkeypatch.setattr(engine.queue, "_unschedulable_after", -1.0)
    engine.queue.flush()
    running = asyncio.create_task(engine.cycle.run())
    await eventually(lambda: values(engine, "scheduled_after_flush") == {(): 1}, "it is bound and counted")
    running.cancel()


async def test_a_plugin_that_raises_is_measured_as_an_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = engine.runners[PROFILE]
    fit = next(plugin for plugin in runner.pre_filters if plugin.name == "NodeResourcesFit")

    def fail(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(fit, "filter", fail)
    await scheduled(engine, "large")
    assert values(engine, "point_duration")["Filter", "Error", PROFILE] == 1


@pytest.mark.parametrize(("name", "expected"), [("VolumeBinding", 1), ("NodeResourcesFit", 0)])
async def test_an_error_of_volume_bindings_filter_counts_as_one_of_the_stage_predicate(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, expected: int
) -> None:
    runner = engine.runners[PROFILE]
    plugin = next(plugin for plugin in runner.filters if plugin.name == name)

    def fail(*_: Any) -> Any:
        raise RuntimeError('running "VolumeBinding" filter plugin')

    monkeypatch.setattr(plugin, "pre_filter", lambda *_: (None, Status()))
    monkeypatch.setattr(plugin, "filter", fail)
    # Else nobody would ask it about a pod without volumes.
    monkeypatch.setattr(plugin, "filter_rule", lambda *_: Reads.ANYTHING)
    await scheduled(engine, "small", volumes=[{"name": "scratch", "emptyDir": {}}])
    assert values(engine, "volume_errors").get(("predicate",), 0) == expected


async def test_a_held_pod_is_measured_by_the_outcome_of_its_wait(engine: Engine) -> None:
    runner = engine.runners[PROFILE]

    class Holding:
        name = "Holding"

        def permit(self, *_: Any) -> Any:
            return Status(Code.WAIT), 30.0

    runner.permit = (Holding(),)  # type: ignore[assignment]  # as much of a plugin as is called
    running = asyncio.create_task(engine.cycle.run())
    pod = engine.add_pod("held")
    await eventually(lambda: len(engine.waiting) == 1, "it is held")
    engine.waiting.reject(pod.uid, "Holding", "no")
    await eventually(lambda: bool(values(engine, "permit_wait")), "its wait is over")
    running.cancel()
    assert values(engine, "permit_wait") == {("Unschedulable",): 1}


def logged(lines: list[Mapping[str, Any]], event: str) -> list[Mapping[str, Any]]:
    return [line for line in lines if line["event"] == event]


async def lines_at(engine: Engine, verbosity: int) -> list[Mapping[str, Any]]:
    engine.cycle._log = AttemptLog(verbosity)
    with capture_logs() as lines:
        await scheduled(engine, "large", "small")
    return list(lines)


async def test_at_the_default_verbosity_only_outcomes_are_logged(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attemptlog, "explain", None)
    lines = await lines_at(engine, 2)
    assert {line["log_level"] for line in lines} == {"info"}


async def test_at_debug_the_rejections_of_each_attempt_are_logged_by_plugin(engine: Engine) -> None:
    lines = await lines_at(engine, 4)
    (line,) = logged(lines, "nodes rejected")
    assert (line["pod"], line["rejectedBy"]) == ("ns/large", {"NodeResourcesFit": 2})
    assert len(logged(lines, "Attempting to schedule pod")) == 2
    assert not logged(lines, "node scored")


async def test_at_trace_the_scores_of_the_best_nodes_are_logged(engine: Engine) -> None:
    lines = await lines_at(engine, 6)
    scored = logged(lines, "node scored")
    assert {line["node"] for line in scored} == {"a", "b"}
    assert sum(line["chosen"] for line in scored) == 1
    assert all(sum(line["plugins"].values()) == line["score"] for line in scored)
    assert logged(lines, "Status after running PostFilter plugins for pod")


async def test_at_trace_all_every_plugins_score_of_every_node_is_a_line(engine: Engine) -> None:
    lines = await lines_at(engine, 8)
    finals = {line["node"]: line["score"] for line in logged(lines, "Calculated node's final score for pod")}
    sums = dict.fromkeys(finals, 0)
    for line in logged(lines, "Plugin scored node for pod"):
        sums[line["node"]] += line["score"]
    assert sums == finals
    assert set(finals) == {"a", "b"}


@pytest.mark.parametrize(
    ("configuration", "others", "own"),
    [(CONFIGURATION, "UnschedulablePod", "UnschedulablePod"), (behaving_as("1.37"), "UnscheduledPod", "TargetPod")],
)
async def test_a_changed_pod_counts_under_the_general_and_under_each_specific_event(
    configuration: str, others: str, own: str
) -> None:
    engine = Engine(configuration=configuration)
    gates = [{"name": "example.com/gate"}]
    engine.add_pod("p", schedulingGates=gates)
    changes: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "tolerations": [{"operator": "Exists"}]}
    for version, fields in (("2", {"schedulingGates": gates, **changes}), ("3", changes), ("3", changes)):
        engine.pods.apply([(EventType.MODIFIED, pod_info("p", rv=version, **fields))])
    engine.pods.apply([(EventType.DELETED, pod_info("p", rv="4"))])
    assert values(engine, "event_handling") == {
        (f"{others}Add",): 1,
        (f"{others}Update",): 2,
        (f"{others}UpdatePodLabel",): 1,
        (f"{others}UpdatePodToleration",): 1,
        (f"{others}UpdatePodSchedulingGatesEliminated",): 1,
        (f"{others}Delete",): 1,
    }
    incoming = {labels for labels in values(engine, "incoming_pods") if labels[0] == "active"}
    assert incoming == {("active", f"{own}UpdatePodSchedulingGatesEliminated")}


async def test_a_changed_pod_on_a_node_counts_under_the_general_and_under_each_specific_event(engine: Engine) -> None:
    engine.add_pod("p", node="a")
    before = values(engine, "event_handling")
    for version, labels in (("2", {"x": "y"}), ("3", {"x": "y"})):
        engine.pods.apply([(EventType.MODIFIED, pod_info("p", node="a", rv=version, metadata={"labels": labels}))])
    after = values(engine, "event_handling")
    new = {labels: count - before.get(labels, 0) for labels, count in after.items() if count != before.get(labels, 0)}
    assert new == {("AssignedPodUpdate",): 2, ("AssignedPodUpdatePodLabel",): 1}
