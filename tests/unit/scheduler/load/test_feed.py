"""Sources are shared, and what a feed makes of readings: readings, metrics, one warning per change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
from structlog.testing import capture_logs

from scheduler.config import load_configuration
from scheduler.framework import LoadReading, NodeLoad
from scheduler.load import LoadError, LoadFeed, LoadSettings, LoadStatus, configured_sources
from scheduler.observe.metrics import Metrics
from tests.support.clock import Clock
from tests.unit.scheduler.load.scripted import ScriptedSource

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


def test_a_source_is_read_as_often_as_a_limit_asks_for() -> None:
    args = {"watcherAddress": WATCHER}
    packing = profile("one", {"TargetLoadPacking": args}, refreshSeconds=60)
    limited = profile("two", {}, refreshSeconds=60)
    limited["plugins"] = {point: {"enabled": [{"name": "HighLoadFilter"}]} for point in ("preFilter", "filter")}
    limited["pluginConfig"].append({"name": "HighLoadFilter", "args": {**args, "metricsUpdateIntervalSeconds": 20}})
    wanted, ignored = sources(packing, limited)
    assert [settings.refresh_seconds for settings in wanted.values()] == [20]
    assert ignored == []


NOW = 1_700_000_000.0


class Feed:
    """A feed of a scripted source, with what it hands on."""

    def __init__(
        self,
        *script: LoadReading | Exception,
        node_of_address: Callable[[str], str | None] = lambda name: name,
        nodes: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        self.readings: list[LoadReading] = []
        self.statuses: list[LoadStatus] = []
        self.metrics = Metrics()
        self.clock = Clock(NOW)
        self._nodes, self._rounds = nodes, len(script)
        self.feed = LoadFeed(
            "key",
            LoadSettings(address=WATCHER, max_age_seconds=300),
            source=ScriptedSource(*script),
            node_of_address=node_of_address,
            on_reading=options.pop("on_reading", self._set_load),
            on_status=self.statuses.append,
            metrics=self.metrics,
            clock=self.clock,
            **options,
        )

    def _set_load(self, reading: LoadReading) -> tuple[str, ...]:
        self.readings.append(reading)
        return tuple(name for name in self._nodes if name not in reading.loads)

    async def run(self) -> list[Any]:
        """Read the whole script as the collector's thread does; returns the log lines."""
        with capture_logs() as logs:
            for _ in range(self._rounds):
                await asyncio.to_thread(self.feed.collector.read_once)
                await asyncio.sleep(0)
        return logs

    def value(self, name: str, **labels: str) -> float | None:
        """A metric of the source."""
        return self.metrics.registry.get_sample_value(f"secondary_scheduler_load_{name}", {"source": "key", **labels})


def named(logs: list[Any], event: str) -> list[Any]:
    return [line for line in logs if event in line["event"]]


def loads_of(*names: str, at: float = NOW) -> LoadReading:
    return LoadReading({name: NodeLoad(cpu_average=1) for name in names}, at)


async def test_unusable_values_are_counted_each_time_and_logged_once() -> None:
    broken = LoadReading({"n1": NodeLoad(cpu_average=1)}, NOW, {"watcher": 2}, reasons={"watcher": "nan of 'n2'"})
    feed = Feed(broken, broken, loads_of("n1"), broken)
    logs = await feed.run()
    assert len(feed.readings) == 4
    assert feed.value("rejected_values_total", query="watcher") == 6
    examples = [line["examples"] for line in named(logs, "cannot be a load")]
    assert examples == [["watcher"]] * 2, "once, and once more after a reading without any"
    assert named(logs, "cannot be a load")[0]["reason"] == "watcher: 2 (nan of 'n2')"


async def test_a_figure_that_fails_is_counted_each_time_and_logged_when_it_fails_twice_in_a_row() -> None:
    broken = LoadReading({"n1": NodeLoad(cpu_average=1)}, NOW, {}, ("memory failed",))
    feed = Feed(broken, loads_of("n1"), broken, broken, broken)
    logs = await feed.run()
    assert [line["examples"] for line in named(logs, "could not be read")] == [["memory failed"]]
    assert feed.value("refresh_failures_total") == 4


async def test_a_failed_read_changes_no_load_and_its_status_says_why() -> None:
    feed = Feed(LoadError("http://w: not reachable"))
    await feed.run()
    assert feed.readings == []
    assert (feed.statuses[0].fresh, feed.statuses[0].message) == (False, "http://w: not reachable")
    assert feed.value("refresh_failures_total") == 1


async def test_series_of_no_node_are_counted_and_kept_for_a_node_that_joins() -> None:
    feed = Feed(loads_of("n1", "x:9100"), node_of_address={"n1": "n1"}.get)
    await feed.run()
    (reading,) = feed.readings
    assert (set(reading.loads), reading.source) == ({"n1", "x"}, "key")
    assert feed.value("unmatched_instances") == 1
    assert feed.value("nodes") == 1


async def test_of_any_number_of_strangers_the_loop_sees_a_thousand() -> None:
    names = [f"{number:06}" for number in range(20_000)]
    feed = Feed(loads_of(*names), loads_of(*reversed(names)), node_of_address={"000007": "n7"}.get)
    logs = await feed.run()
    (line,) = named(logs, "no node of the cluster")
    assert (line["count"], line["examples"]) == (1000, ["000000", "000001", "000002"])
    assert feed.value("unmatched_instances") == 19_999


async def test_nodes_without_load_are_logged_once_and_again_when_others_join_them() -> None:
    script = (loads_of("n1"), loads_of("n1"), loads_of("n1", "n2"), loads_of("n1", "n2"), loads_of("n2"))
    feed = Feed(*script, nodes=("n1", "n2", "n3"))
    logs = await feed.run()
    summaries = [(line["count"], line["examples"]) for line in named(logs, "nodes without load")]
    assert summaries == [(2, ["n2", "n3"]), (2, ["n1"])]
    assert feed.value("node_states", state="absent") == 2
    assert feed.value("node_states", state="fresh") == 1


async def test_single_nodes_whose_load_is_too_old_are_logged_and_counted() -> None:
    loads = {
        "n1": NodeLoad(cpu_average=1, measured_at=NOW),
        "n2": NodeLoad(cpu_average=1, measured_at=NOW - 3600),
    }
    feed = Feed(LoadReading(loads, NOW), nodes=("n1", "n2"))
    logs = await feed.run()
    assert feed.statuses[0].fresh, "the source as a whole is fresh"
    assert named(logs, "too old")[0]["examples"] == ["n2"]
    assert feed.value("node_states", state="stale") == 1


async def test_a_node_whose_clock_is_ahead_is_logged_and_counts_as_stale() -> None:
    loads = {f"n{ahead}": NodeLoad(cpu_average=1, measured_at=NOW + ahead) for ahead in (0, 60, 61)}
    feed = Feed(LoadReading(loads, NOW))
    logs = await feed.run()
    assert feed.statuses[0].fresh, "the source as a whole is fresh"
    assert [line["examples"] for line in named(logs, "ahead of this machine's clock")] == [["n61"]]
    assert named(logs, "too old") == []
    assert feed.value("node_states", state="stale") == 1


async def test_loads_become_stale_while_the_source_is_silent() -> None:
    feed = Feed(loads_of("n1", "n2"))
    await feed.run()
    for seconds, fresh in ((300, 1), (301, 0)):
        feed.clock.now = NOW + seconds
        feed.feed.show_age(feed.feed.status())
        assert feed.value("data_fresh") == fresh
        assert feed.value("node_states", state="fresh") == 2 * fresh
        assert feed.value("node_states", state="stale") == 2 - 2 * fresh


async def test_a_source_whose_series_match_no_node_is_not_fresh_and_says_what_to_set() -> None:
    feed = Feed(loads_of("10.0.0.9:9100"), node_of_address=lambda _: None, nodes=("n1",))
    await feed.run()
    assert not feed.statuses[0].fresh
    assert "10.0.0.9:9100" in feed.statuses[0].message
    assert "nodeLabel" in feed.statuses[0].message
    assert feed.value("data_fresh") == 0


async def test_a_bug_in_the_reader_is_a_failed_read_and_not_the_end_of_reading() -> None:
    feed = Feed(RuntimeError("boom"), loads_of("n1"))
    await feed.run()
    assert [status.fresh for status in feed.statuses] == [False, True]
    assert "RuntimeError" in feed.statuses[0].message
    assert feed.value("refresh_failures_total") == 1


async def test_a_bug_in_the_node_table_is_logged_and_not_the_end_of_reading() -> None:
    def refuse(_: LoadReading) -> tuple[str, ...]:
        raise RuntimeError("boom")

    feed = Feed(loads_of("n1"), loads_of("n1"), on_reading=refuse)
    logs = await feed.run()
    assert len(named(logs, "could not be put into the node table")) == 2
    assert len(feed.statuses) == 2


async def test_plugins_prepare_off_the_loop_before_the_load_is_in_the_table() -> None:
    order: list[str] = []
    loop_thread = threading.get_ident()

    def prepare(reading: LoadReading) -> list[Callable[[], None]]:
        order.append(f"asked for {sorted(reading.loads)} on the loop: {threading.get_ident() == loop_thread}")
        return [lambda: order.append(f"worked on the loop: {threading.get_ident() == loop_thread}")]

    def set_load(_: LoadReading) -> tuple[str, ...]:
        order.append("in the table")
        return ()

    await Feed(loads_of("n1"), prepare=prepare, on_reading=set_load).run()
    assert order == ["asked for ['n1'] on the loop: True", "worked on the loop: False", "in the table"]


async def test_a_plugin_that_fails_to_prepare_does_not_end_the_reading() -> None:
    def prepare(_: LoadReading) -> list[Callable[[], None]]:
        raise RuntimeError("boom")

    feed = Feed(loads_of("n1"), prepare=prepare)
    logs = await feed.run()
    assert [set(reading.loads) for reading in feed.readings] == [{"n1"}]
    assert [line["event"] for line in logs] == ["a plugin could not prepare for a load"]


def test_a_reading_that_comes_after_the_end_of_the_loop_is_dropped() -> None:
    async def create() -> Feed:
        return Feed(loads_of("n1"))

    feed = asyncio.run(create())
    feed.feed.collector.read_once()
    assert feed.readings == []
