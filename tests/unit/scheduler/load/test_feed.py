"""Sources are shared, and what a feed makes of readings: readings, metrics, one warning per change."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
from structlog.testing import capture_logs

from scheduler.config import load_configuration
from scheduler.framework import LoadReading, NodeLoad
from scheduler.load import LoadError, LoadFeed, LoadSettings, LoadStatus, configured_sources
from scheduler.observe.metrics import Metrics

WATCHER = "http://watcher.test:2020"


def profile(name: str, plugins: dict[str, Any], **load: Any) -> dict[str, Any]:
    config = [{"name": plugin, "args": args} for plugin, args in plugins.items()]
    config.append({"name": "SecondarySchedulerOptions", "args": {"load": load}})
    score = {"enabled": [{"name": plugin} for plugin in plugins]}
    return {"schedulerName": name, "plugins": {"score": score}, "pluginConfig": config}


def sources(*profiles: dict[str, Any]) -> tuple[dict[str, LoadSettings], list[str]]:
    data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles),
    }
    return configured_sources(load_configuration(msgspec.json.encode(data).decode(), source="test").profiles)


def test_all_plugins_and_profiles_share_one_collector_per_source() -> None:
    watched = {"watcherAddress": WATCHER}
    peaks = {"WatcherAddress": f"{WATCHER}/", "NodePowerModel": {}}
    first = profile("one", {"TargetLoadPacking": watched, "LowRiskOverCommitment": watched, "Peaks": peaks})
    prometheus = {"metricProvider": {"type": "Prometheus", "address": "https://p"}}
    second = profile("two", {"TargetLoadPacking": watched, "LoadVariationRiskBalancing": prometheus})
    wanted, ignored = sources(first, second)
    assert list(wanted) == [f"watcher:{WATCHER}", "Prometheus:https://p"]
    assert ignored == []


def test_other_options_for_a_source_that_is_read_already_are_named() -> None:
    plugins = {"TargetLoadPacking": {"metricProvider": {"type": "Prometheus", "address": "https://p"}}}
    wanted, ignored = sources(profile("one", plugins, window="5m"), profile("two", plugins, window="15m"))
    assert [settings.window for settings in wanted.values()] == ["5m"]
    assert ignored == ["two/TargetLoadPacking"]


class ScriptedSource:
    """A fake source that plays back readings."""

    def __init__(self, *script: LoadReading | LoadError) -> None:
        self.script = list(script)

    def describe(self) -> str:
        return "Fake source"

    def read(self) -> LoadReading:
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def close(self) -> None:
        pass


async def feed(
    *script: LoadReading | LoadError,
    node_of: Callable[[str], str | None] = lambda name: name,
    nodes: tuple[str, ...] = (),
) -> tuple[list[LoadReading], list[LoadStatus], Metrics, list[Any]]:
    """Read the whole script; returns readings, statuses, metrics and log lines."""
    readings: list[LoadReading] = []
    statuses: list[LoadStatus] = []
    metrics = Metrics()

    def take(reading: LoadReading) -> tuple[str, ...]:
        readings.append(reading)
        return tuple(name for name in nodes if name not in reading.loads)

    with capture_logs() as logs:
        load_feed = LoadFeed(
            "key",
            LoadSettings(address=WATCHER),
            node_of_address=node_of,
            on_reading=take,
            on_status=statuses.append,
            metrics=metrics,
            source=ScriptedSource(*script),
        )
        for _ in script:
            await asyncio.to_thread(load_feed.collector.read_once)
            await asyncio.sleep(0)
    return readings, statuses, metrics, logs


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


async def test_values_that_are_no_load_are_counted_each_time_and_named_once() -> None:
    broken = LoadReading({"n1": NodeLoad(cpu_average=1)}, 100, {"watcher": 2})
    whole = LoadReading({"n1": NodeLoad(cpu_average=1)}, 100)
    readings, _, metrics, logs = await feed(broken, broken, whole, broken)
    assert len(readings) == 4
    assert value(metrics, "secondary_scheduler_load_rejected_values_total", source="key", query="watcher") == 6
    warnings = named(logs, "cannot be a load")
    assert [warning["examples"] for warning in warnings] == [["watcher"]] * 2, (
        "once, and once more after it had been well"
    )


async def test_a_figure_that_fails_is_counted_and_named_when_it_fails_again() -> None:
    broken = LoadReading({"n1": NodeLoad(cpu_average=1)}, 100, {}, ("memory failed",))
    whole = LoadReading({"n1": NodeLoad(cpu_average=1)}, 100)
    _, _, metrics, logs = await feed(broken, whole, broken, broken, broken)
    assert [warning["examples"] for warning in named(logs, "could not be read")] == [["memory failed"]]
    assert value(metrics, "secondary_scheduler_load_refresh_failures_total", source="key") == 4


async def test_a_failed_read_changes_no_load_and_says_why() -> None:
    readings, statuses, metrics, _ = await feed(LoadError("http://w: not reachable"))
    assert readings == []
    assert (statuses[0].fresh, statuses[0].message) == (False, "http://w: not reachable")
    assert value(metrics, "secondary_scheduler_load_refresh_failures_total", source="key") == 1


async def test_loads_of_strangers_are_counted_and_left_out() -> None:
    reading = LoadReading({"n1": NodeLoad(cpu_average=1), "x:9100": NodeLoad(cpu_average=2)}, 100)
    readings, _, metrics, _ = await feed(reading, node_of=lambda name: "n1" if name == "n1" else None)
    assert set(readings[0].loads) == {"n1"}
    assert value(metrics, "secondary_scheduler_load_unmatched_instances", source="key") == 1
    assert value(metrics, "secondary_scheduler_load_nodes", source="key") == 1


def named(logs: list[Any], event: str) -> list[Any]:
    return [line for line in logs if event in line["event"]]


async def test_nodes_without_load_are_named_once_and_again_when_others_join_them() -> None:
    def reading(*names: str) -> LoadReading:
        return LoadReading({name: NodeLoad(cpu_average=1) for name in names}, time.time())

    _, _, metrics, logs = await feed(
        reading("n1"), reading("n1"), reading("n1", "n2"), reading("n1", "n2"), reading("n2"), nodes=("n1", "n2", "n3")
    )
    summaries = [(line["count"], line["examples"]) for line in named(logs, "nodes without load")]
    assert summaries == [(2, ["n2", "n3"]), (2, ["n1"])]
    assert value(metrics, "secondary_scheduler_load_node_states", source="key", state="absent") == 2
    assert value(metrics, "secondary_scheduler_load_node_states", source="key", state="fresh") == 1


async def test_single_nodes_whose_load_is_too_old_are_named_and_counted() -> None:
    now = time.time()
    loads = {
        "n1": NodeLoad(cpu_average=1, measured_at=now),
        "n2": NodeLoad(cpu_average=1, measured_at=now - 3600),
    }
    _, statuses, metrics, logs = await feed(LoadReading(loads, now), nodes=("n1", "n2"))
    assert statuses[0].fresh, "the source as a whole is fresh"
    assert named(logs, "too old")[0]["examples"] == ["n2"]
    assert value(metrics, "secondary_scheduler_load_node_states", source="key", state="stale") == 1


async def test_a_source_whose_series_match_no_node_is_not_fresh_and_says_what_to_set() -> None:
    reading = LoadReading({"10.0.0.9:9100": NodeLoad(cpu_average=1)}, time.time())
    _, statuses, metrics, _ = await feed(reading, node_of=lambda _: None, nodes=("n1",))
    assert not statuses[0].fresh
    assert "10.0.0.9:9100" in statuses[0].message
    assert "nodeLabel" in statuses[0].message
    assert value(metrics, "secondary_scheduler_load_data_fresh", source="key") == 0


async def test_a_mistake_of_the_reader_is_a_failed_read_and_not_the_end_of_reading() -> None:
    now = time.time()
    crash = RuntimeError("boom")
    _, statuses, metrics, _ = await feed(crash, LoadReading({"n1": NodeLoad(cpu_average=1)}, now))  # type: ignore[arg-type]
    assert [status.fresh for status in statuses] == [False, True]
    assert "RuntimeError" in statuses[0].message
    assert value(metrics, "secondary_scheduler_load_refresh_failures_total", source="key") == 1


async def test_what_plugins_prepare_is_worked_out_off_the_loop_and_before_the_load_is_taken() -> None:
    order: list[str] = []
    loop_thread = threading.get_ident()

    def prepare(reading: LoadReading) -> list[Callable[[], None]]:
        order.append(f"asked for {sorted(reading.loads)} on the loop: {threading.get_ident() == loop_thread}")
        return [lambda: order.append(f"worked on the loop: {threading.get_ident() == loop_thread}")]

    def take(reading: LoadReading) -> tuple[str, ...]:
        order.append("taken")
        return ()

    load_feed = LoadFeed(
        "key",
        LoadSettings(address=WATCHER),
        node_of_address=lambda name: name,
        on_reading=take,
        on_status=lambda _: None,
        metrics=Metrics(),
        source=ScriptedSource(LoadReading({"n1": NodeLoad(cpu_average=1)}, 1)),
        prepare=prepare,
    )
    await asyncio.to_thread(load_feed.collector.read_once)
    await asyncio.sleep(0)
    assert order == ["asked for ['n1'] on the loop: True", "worked on the loop: False", "taken"]


async def test_a_plugin_that_fails_to_prepare_does_not_end_the_reading() -> None:
    def prepare(_: LoadReading) -> list[Callable[[], None]]:
        raise RuntimeError("boom")

    readings: list[LoadReading] = []

    def take(reading: LoadReading) -> tuple[str, ...]:
        readings.append(reading)
        return ()

    reading = LoadReading({"n1": NodeLoad(cpu_average=1)}, 1)
    load_feed = LoadFeed(
        "key",
        LoadSettings(address=WATCHER),
        node_of_address=lambda name: name,
        on_reading=take,
        on_status=lambda _: None,
        metrics=Metrics(),
        source=ScriptedSource(reading),
        prepare=prepare,
    )
    with capture_logs() as logs:
        await asyncio.to_thread(load_feed.collector.read_once)
        await asyncio.sleep(0)
    assert [set(reading.loads) for reading in readings] == [{"n1"}]
    assert [line["event"] for line in logs] == ["a plugin could not prepare for a load"]
