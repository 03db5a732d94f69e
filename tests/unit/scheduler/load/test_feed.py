"""Sources are shared, and what a feed makes of readings: tables, metrics, one warning per change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from structlog.testing import capture_logs

from scheduler.config import load_configuration
from scheduler.engine.loads import LoadFeed, wanted_sources
from scheduler.framework import LoadTable
from scheduler.load import InstanceLoad, LoadError, LoadReading, LoadSettings, LoadStatus
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
    return wanted_sources(load_configuration(msgspec.json.encode(data).decode(), source="test").profiles)


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
        if isinstance(step, LoadError):
            raise step
        return step

    def close(self) -> None:
        pass


async def feed(
    *script: LoadReading | LoadError, node_of: Callable[[str], str | None] = lambda name: name
) -> tuple[list[LoadTable], list[LoadStatus], Metrics, list[Any]]:
    """Read the whole script; returns tables, statuses, metrics and log lines."""
    tables: list[LoadTable] = []
    statuses: list[LoadStatus] = []
    metrics = Metrics()
    with capture_logs() as logs:
        made = LoadFeed(
            "key",
            LoadSettings(address=WATCHER),
            node_of_address=node_of,
            on_table=tables.append,
            on_status=statuses.append,
            metrics=metrics,
            source=ScriptedSource(*script),
        )
        for _ in script:
            await asyncio.to_thread(made.collector.read_once)
            await asyncio.sleep(0)
    return tables, statuses, metrics, logs


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


async def test_values_that_are_no_load_are_counted_each_time_and_named_once() -> None:
    broken = LoadReading({"n1": InstanceLoad(cpu_average=1)}, 100, {"watcher": 2}, ("memory failed",))
    whole = LoadReading({"n1": InstanceLoad(cpu_average=1)}, 100)
    tables, _, metrics, logs = await feed(broken, broken, whole, broken)
    assert len(tables) == 4
    assert value(metrics, "secondary_scheduler_load_rejected_values_total", source="key", query="watcher") == 6
    warnings = [one for one in logs if "could not be used" in one["event"]]
    assert len(warnings) == 2, "once, and once more after it had been well"
    assert warnings[0]["problems"] == ("memory failed",)


async def test_a_failed_read_makes_no_table_and_says_why() -> None:
    tables, statuses, metrics, _ = await feed(LoadError("http://w: not reachable"))
    assert tables == []
    assert (statuses[0].fresh, statuses[0].message) == (False, "http://w: not reachable")
    assert value(metrics, "secondary_scheduler_load_refresh_failures_total", source="key") == 1


async def test_loads_of_strangers_are_counted_and_left_out() -> None:
    reading = LoadReading({"n1": InstanceLoad(cpu_average=1), "x:9100": InstanceLoad(cpu_average=2)}, 100)
    tables, _, metrics, _ = await feed(reading, node_of=lambda name: "n1" if name == "n1" else None)
    assert set(tables[0].nodes) == {"n1"}
    assert value(metrics, "secondary_scheduler_load_unmatched_instances", source="key") == 1
    assert value(metrics, "secondary_scheduler_load_nodes", source="key") == 1
